"""Put messages with SimpleProducer, one block."""

from sdk import Arguments, config, credential, run
from talos.producer.SimpleProducer import SimpleProducer
from talos.thrift.message.ttypes import Message


def program(arguments: Arguments) -> None:
    producer = SimpleProducer(
        producerConfig=config(arguments),
        topicName=arguments["topic"],
        partitionId=arguments["partition"],
        credential=credential(arguments),
    )
    producer.put_message_list([Message(message=text.encode()) for text in arguments["payloads"]])


if __name__ == "__main__":
    run(program)

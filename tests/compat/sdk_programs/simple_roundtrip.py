"""Put messages with SimpleProducer and read them back with SimpleConsumer, one partition."""

from typing import Any

from sdk import Arguments, config, credential, run, say
from talos.consumer.SimpleConsumer import SimpleConsumer
from talos.producer.SimpleProducer import SimpleProducer
from talos.thrift.message.ttypes import Message


def program(arguments: Arguments) -> None:
    settings, caller = config(arguments), credential(arguments)
    topic, partition = arguments["topic"], arguments["partition"]
    producer = SimpleProducer(
        producerConfig=settings, topicName=topic, partitionId=partition, credential=caller
    )
    payloads = [text.encode() for text in arguments["payloads"]]
    batch = arguments.get("batch", len(payloads))
    for first in range(0, len(payloads), batch):
        messages = [
            Message(message=payload, sequenceNumber=f"s{first + number}", partitionKey="key")
            for number, payload in enumerate(payloads[first : first + batch])
        ]
        producer.put_message_list(messages)
    consumer = SimpleConsumer(
        clientConfig=settings, topicName=topic, partitionId=partition, credential=caller
    )
    read: list[Any] = []
    next_offset = arguments["start"]
    while len(read) < len(payloads):
        fetched = consumer.fetch_message(next_offset, arguments.get("fetch", 2000))
        if not fetched:
            break
        read += fetched
        next_offset = fetched[-1].messageOffset + 1
    say(
        offsets=[item.messageOffset for item in read],
        payloads=[item.message.message.decode() for item in read],
        sequence=[item.message.sequenceNumber for item in read],
        appended=[item.message.appendTimestamp for item in read],
        behind=[item.unHandledMessageNumber for item in read],
    )


if __name__ == "__main__":
    run(program)

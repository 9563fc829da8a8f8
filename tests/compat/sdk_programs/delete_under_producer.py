"""Send with TalosProducer, delete the topic, and wait until the producer notices."""

from sdk import Arguments, admin, config, credential, run, say
from talos.producer.TalosProducer import TalosProducer
from talos.thrift.message.ttypes import Message
from talos.thrift.topic.ttypes import DeleteTopicRequest, GetDescribeInfoRequest
from talos_producer import Abnormal, Confirmations


def program(arguments: Arguments) -> None:
    payloads = arguments["payloads"]
    confirmations, abnormal = Confirmations(len(payloads)), Abnormal()
    producer = TalosProducer(
        producerConfig=config(arguments),
        credential=credential(arguments),
        topicName=arguments["topic"],
        topicAbnormalCallback=abnormal,
        userMessageCallback=confirmations,
    )
    producer.add_user_message([Message(message=text.encode()) for text in payloads])
    confirmations.done.wait()
    say(succeeded=sum(confirmations.succeeded.values()), failed=confirmations.failed)
    administration = admin(arguments)
    described = administration.get_describe_info(GetDescribeInfoRequest(arguments["topic"]))
    administration.delete_topic(DeleteTopicRequest(described.topicTalosResourceName))
    gone = abnormal.gone.wait()
    say(gone=gone, active=producer.is_active())


if __name__ == "__main__":
    run(program)

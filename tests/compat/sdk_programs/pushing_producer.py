"""Put with TalosProducer whose metric pushes are on, and stay until stdin ends."""

import sys

from sdk import Arguments, config, credential, run, say
from talos.producer.TalosProducer import TalosProducer
from talos.thrift.message.ttypes import Message
from talos_producer import Abnormal, Confirmations


def program(arguments: Arguments) -> None:
    confirmations = Confirmations(10)
    producer = TalosProducer(
        producerConfig=config(arguments),
        credential=credential(arguments),
        topicName=arguments["topic"],
        topicAbnormalCallback=Abnormal(),
        userMessageCallback=confirmations,
    )
    producer.add_user_message([Message(message=b"x") for _ in range(10)])
    confirmations.done.wait()
    sys.stdin.read()
    say(succeeded=sum(confirmations.succeeded.values()), failed=confirmations.failed)


if __name__ == "__main__":
    run(program)

"""Put with TalosProducer whose metric pushes are on, and stay until some were sent."""

import time

from sdk import Arguments, config, credential, run, say
from talos.producer.TalosProducer import TalosProducer
from talos.thrift.message.ttypes import Message
from talos_producer import CONFIRM_TIMEOUT_S, Abnormal, Confirmations


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
    confirmations.done.wait(CONFIRM_TIMEOUT_S)
    time.sleep(arguments["stay_s"])
    say(succeeded=sum(confirmations.succeeded.values()), failed=confirmations.failed)


if __name__ == "__main__":
    run(program)

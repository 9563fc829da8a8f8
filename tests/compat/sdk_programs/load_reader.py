"""Read one partition from its start until stdin ends, and write down every answer."""

import time

from load_history import History, stop_at_end_of_input
from sdk import Arguments, config, credential, reason, run, say
from talos.consumer.SimpleConsumer import SimpleConsumer

PAUSE_AFTER_FAILURE_S = 0.02


def program(arguments: Arguments) -> None:
    stop = stop_at_end_of_input()
    topic, partition = arguments["topic"], arguments["partition"]
    consumer = SimpleConsumer(
        clientConfig=config(arguments),
        topicName=topic,
        partitionId=partition,
        credential=credential(arguments),
    )
    history = History(arguments["history"], arguments["prefix"])
    say(event="started")
    offset = 0
    while not stop.is_set():
        read = history.invoke("read", topic=topic, partition=partition, offset=offset)
        try:
            fetched = consumer.fetch_message(offset, 500)
        except Exception as error:
            history.fail(read, reason(error))
            time.sleep(PAUSE_AFTER_FAILURE_S)
            continue
        blocks = [[record.messageOffset, [record.message.message.decode()]] for record in fetched]
        history.ok(read, blocks=blocks)
        if fetched:
            offset = fetched[-1].messageOffset + 1
        time.sleep(arguments.get("pause_s", 0))
    say(event="stopped", next=offset)


if __name__ == "__main__":
    run(program)

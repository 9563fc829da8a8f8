"""Read a partition from its start until stdin ends, and write down every poll as a history."""

import json
import sys
import threading
import time

from sdk import Arguments, config, credential, run, say
from talos.consumer.SimpleConsumer import SimpleConsumer

PAUSE_AFTER_FAILURE_S = 0.02


def program(arguments: Arguments) -> None:
    stop = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    consumer = SimpleConsumer(
        clientConfig=config(arguments),
        topicName=arguments["topic"],
        partitionId=arguments["partition"],
        credential=credential(arguments),
    )
    say(event="started")
    offset = 0
    with open(arguments["history"], "w", buffering=1) as history:
        while not stop.is_set():
            try:
                fetched = consumer.fetch_message(offset, 500)
            except Exception as error:
                line = {"type": "error", "offset": offset, "error": f"{type(error).__name__}"}
                history.write(json.dumps({**line, "at": time.monotonic()}) + "\n")
                time.sleep(PAUSE_AFTER_FAILURE_S)
                continue
            if fetched:
                read = [[one.messageOffset, one.message.message.decode()] for one in fetched]
                line = {"type": "poll", "offset": offset, "read": read, "at": time.monotonic()}
                history.write(json.dumps(line) + "\n")
                offset = fetched[-1].messageOffset + 1
    say(event="stopped", next=offset)


if __name__ == "__main__":
    run(program)

"""A process of confluent-kafka that writes or reads a partition or a topic and records each call.

usage: python -m tests.kafka_client JSON     until its standard input ends

``kind``: "put" (each message is sent once), "put-idempotent" (repeated until it is done), "poll",
or "group": a member of the group GROUP, which reads the whole topic with the others.
Histories are JSON lines of opentalos.testing.simulation.history.
"""

import contextlib
import itertools
import json
import select
import sys
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
from tests.waiting import limit_s

from opentalos.testing.simulation.history import Recorder

GROUP = "sharing"
COMMIT_S = 0.2  # from one commit to the next
PAUSE_S = 0.002  # between two messages
WAITING_MAX = 200  # messages without an outcome
SEND_ONCE = {"retries": "0", "enable.idempotence": False, "message.timeout.ms": 5_000}
REPEAT = {"enable.idempotence": True, "message.timeout.ms": 300_000}
READ = {
    "group.id": "not-used",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": 100,
}
QUICK = {  # a server that was killed is back within a second
    "acks": "all",
    "linger.ms": 5,
    "socket.timeout.ms": 3_000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.max.ms": 200,
    "log_level": 0,
}


def ended() -> bool:
    """Whether the caller closed our standard input."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def put(given: dict[str, Any], recorder: Recorder) -> None:
    """Write until stopped, then wait for every outcome."""
    idempotent = given["kind"] == "put-idempotent"
    producer = confluent_kafka.Producer(
        given["settings"] | QUICK | (REPEAT if idempotent else SEND_ONCE)
    )
    topic, partition, name = given["topic"], given["partition"], given["name"]

    def outcome_of(operation: Any) -> Callable[[Any, Any], None]:
        def done(error: Any, message: Any) -> None:
            if error is None:
                recorder.ok(operation, offset=message.offset())
            else:
                recorder.unknown(operation, str(error))

        return done

    count = 0
    while not ended():
        if len(producer) < WAITING_MAX:
            text = f"{name}-{count}"
            count += 1
            args = {"topic": topic, "partition": partition, "ids": [text]}
            operation = recorder.invoke(name, "put", **args, idempotent=idempotent)
            producer.produce(
                topic, text.encode(), partition=partition, on_delivery=outcome_of(operation)
            )
        producer.poll(PAUSE_S)
    left = producer.flush(limit_s())
    if left:
        raise TimeoutError(f"{left} messages have no outcome")


def poll(given: dict[str, Any], recorder: Recorder) -> None:
    """Follow a partition from its start until stopped."""
    consumer = confluent_kafka.Consumer(
        {key: value for key, value in (given["settings"] | QUICK | READ).items() if key not in PUTS}
    )
    topic, partition, name = given["topic"], given["partition"], given["name"]
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
    while not ended():
        args = {"topic": topic, "partition": partition, "session": 0}
        operation = recorder.invoke(name, "poll", **args)
        messages = consumer.consume(500, 0.1)
        recorder.ok(operation, blocks=blocks_of(messages))
    consumer.close()


def share(given: dict[str, Any], recorder: Recorder) -> None:
    """Read what the group gives this member, and commit it, until stopped.

    Each assignment is a session of its own, which begins where somebody committed.
    """
    consumer = confluent_kafka.Consumer(
        {key: value for key, value in (given["settings"] | QUICK).items() if key not in PUTS}
        | {"group.id": GROUP, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )
    sessions = itertools.count(1)
    session = 0

    def assigned(_consumer: Any, _partitions: Any) -> None:
        nonlocal session
        session = next(sessions)

    consumer.subscribe([given["topic"]], on_assign=assigned)
    committed = 0.0
    while not ended():
        message = consumer.poll(0.1)
        if message is not None and blocks_of([message]):
            place = {"topic": given["topic"], "partition": message.partition()}
            operation = recorder.invoke(given["name"], "poll", **place, session=session)
            recorder.ok(operation, blocks=blocks_of([message]))
        interval = time.monotonic() // COMMIT_S
        if interval != committed:
            committed = interval
            with contextlib.suppress(confluent_kafka.KafkaException):  # others read it once more
                consumer.commit(asynchronous=False)
    consumer.close()


def blocks_of(messages: list[confluent_kafka.Message]) -> list[object]:
    """Raises: ValueError: the position is not in the log, which retention does not explain here."""
    found: list[object] = []
    for message in messages:
        error, value = message.error(), message.value()
        if error is None:
            found.append([message.offset(), [None if value is None else value.decode()]])
        elif error.code() in NEVER:
            raise ValueError(str(error))
    return found


NEVER = (
    confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE,
    confluent_kafka.KafkaError._AUTO_OFFSET_RESET,
)
PUTS = ("acks", "linger.ms", "retry.backoff.max.ms")


def main() -> None:
    given = json.loads(sys.argv[1])
    with open(given["file"], "w") as sink:
        recorder = Recorder(time.monotonic, sink)
        {"poll": poll, "group": share}.get(given["kind"], put)(given, recorder)


if __name__ == "__main__":
    main()

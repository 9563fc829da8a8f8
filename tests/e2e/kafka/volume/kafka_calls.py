"""A process of one Kafka client that makes thousands of calls, each checked.

usage: python -m tests.e2e.kafka.volume.kafka_calls JSON

Prints how many calls of each kind it made and what failed. Logins are many, as each has numbers of
its own: what fails once in sixteen or once in 256 times is seen.
"""

import asyncio
import importlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from tests.waiting import eventually, limit_s, within_limit

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
RECORDS = 40  # of each login
FAILURES_SHOWN = 10
GROUP = "volume"
T = TypeVar("T")
Pair = tuple[bytes | None, bytes | None]


class Client(Protocol):
    """One client that has logged in. Offsets are of partition 0."""

    def put(self, key: bytes, value: bytes | None) -> int: ...
    def read(self, offset: int, count: int) -> Sequence[Pair]: ...
    def commit(self, offset: int) -> None: ...
    def committed(self) -> int: ...
    def end(self) -> int: ...
    def first_since(self, time_ms: int) -> int: ...
    def topics(self) -> set[str]: ...
    def close(self) -> None: ...


class Librdkafka:
    """confluent-kafka."""

    def __init__(self, address: str, topic: str, mechanism: str, key: Sequence[str]) -> None:
        self._kafka: Any = importlib.import_module("confluent_kafka")
        settings = {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": key[0],
            "sasl.password": key[1],
        }
        self._place = self._kafka.TopicPartition(topic, 0)
        self._producer = self._kafka.Producer({**settings, "linger.ms": 0})
        reads = {"group.id": GROUP, "enable.auto.commit": False, "auto.offset.reset": "error"}
        self._consumer = self._kafka.Consumer({**settings, **reads, "fetch.wait.max.ms": 10})

    def put(self, key: bytes, value: bytes | None) -> int:
        found: list[Any] = []
        self._producer.produce(
            self._place.topic, value, key=key, partition=0, headers={"h": b"1"},
            on_delivery=lambda error, message: found.append(error or message.offset()),
        )  # fmt: skip
        self._producer.flush(limit_s())
        return int(found[0])

    def read(self, offset: int, count: int) -> Sequence[Pair]:
        self._consumer.assign([self._at(offset)])
        found: list[Pair] = []
        while len(found) < count:
            message = self._consumer.poll(limit_s())
            if message.error() is not None:
                raise ValueError(str(message.error()))
            found.append((message.key(), message.value()))
        return found

    def commit(self, offset: int) -> None:
        self._consumer.commit(offsets=[self._at(offset)], asynchronous=False)

    def committed(self) -> int:
        return int(self._consumer.committed([self._place], limit_s())[0].offset)

    def end(self) -> int:
        return int(self._consumer.get_watermark_offsets(self._place, limit_s())[1])

    def first_since(self, time_ms: int) -> int:
        return int(self._consumer.offsets_for_times([self._at(time_ms)], limit_s())[0].offset)

    def topics(self) -> set[str]:
        return set(self._producer.list_topics(timeout=limit_s()).topics)

    def close(self) -> None:
        self._consumer.close()

    def _at(self, offset: int) -> Any:
        return self._kafka.TopicPartition(self._place.topic, 0, offset)


def in_python(address: str, mechanism: str, key: Sequence[str]) -> dict[str, Any]:
    """Settings of aiokafka and kafka-python."""
    return {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": key[0],
        "sasl_plain_password": key[1],
    }


class KafkaPython:
    """kafka-python."""

    def __init__(self, address: str, topic: str, mechanism: str, key: Sequence[str]) -> None:
        kafka: Any = importlib.import_module("kafka")
        settings = in_python(address, mechanism, key)
        self._place = kafka.TopicPartition(topic, 0)
        self._position: Any = kafka.OffsetAndMetadata
        self._producer = kafka.KafkaProducer(**settings, acks="all")
        self._consumer = kafka.KafkaConsumer(
            **settings, group_id=GROUP, enable_auto_commit=False, fetch_max_wait_ms=10
        )
        self._consumer.assign([self._place])

    def put(self, key: bytes, value: bytes | None) -> int:
        sent = self._producer.send(
            self._place.topic, value, key=key, partition=0, headers=[("h", b"1")]
        )
        return int(sent.get(limit_s()).offset)

    def read(self, offset: int, count: int) -> Sequence[Pair]:
        self._consumer.seek(self._place, offset)
        found: list[Pair] = []

        def enough() -> bool:
            some = self._consumer.poll(timeout_ms=1_000, max_records=count - len(found))
            found.extend((each.key, each.value) for each in some.get(self._place, ()))
            return len(found) >= count

        eventually(f"{count} records are read", enough, state=lambda: len(found))
        return found

    def commit(self, offset: int) -> None:
        self._consumer.commit({self._place: self._position(offset, "", -1)})

    def committed(self) -> int:
        return int(self._consumer.committed(self._place))

    def end(self) -> int:
        return int(self._consumer.end_offsets([self._place])[self._place])

    def first_since(self, time_ms: int) -> int:
        return int(self._consumer.offsets_for_times({self._place: time_ms})[self._place].offset)

    def topics(self) -> set[str]:
        return set(self._consumer.topics())

    def close(self) -> None:
        self._producer.close(limit_s())
        self._consumer.close()


class AioKafka:
    """aiokafka, each call in the same loop."""

    def __init__(self, address: str, topic: str, mechanism: str, key: Sequence[str]) -> None:
        kafka: Any = importlib.import_module("aiokafka")
        settings = in_python(address, mechanism, key)
        self._loop = asyncio.new_event_loop()
        self._place = kafka.TopicPartition(topic, 0)

        async def start() -> tuple[Any, Any]:
            producer = kafka.AIOKafkaProducer(**settings, acks="all")
            consumer = kafka.AIOKafkaConsumer(
                **settings, group_id=GROUP, enable_auto_commit=False, fetch_max_wait_ms=10
            )
            consumer.assign([self._place])
            await producer.start()
            await consumer.start()
            return producer, consumer

        self._producer, self._consumer = self._run(start())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with within_limit("aiokafka ends a call"):
                return await work

        return self._loop.run_until_complete(bounded())

    def put(self, key: bytes, value: bytes | None) -> int:
        send = self._producer.send_and_wait(
            self._place.topic, value, key=key, partition=0, headers=[("h", b"1")]
        )
        return int(self._run(send).offset)

    def read(self, offset: int, count: int) -> Sequence[Pair]:
        self._consumer.seek(self._place, offset)
        found = [self._run(self._consumer.getone()) for _ in range(count)]
        return [(each.key, each.value) for each in found]

    def commit(self, offset: int) -> None:
        self._run(self._consumer.commit({self._place: offset}))

    def committed(self) -> int:
        return int(self._run(self._consumer.committed(self._place)))

    def end(self) -> int:
        return int(self._run(self._consumer.end_offsets([self._place]))[self._place])

    def first_since(self, time_ms: int) -> int:
        found = self._run(self._consumer.offsets_for_times({self._place: time_ms}))
        return int(found[self._place].offset)

    def topics(self) -> set[str]:
        return set(self._run(self._consumer.topics()))

    def close(self) -> None:
        self._run(self._producer.stop())
        self._run(self._consumer.stop())
        self._loop.close()


CLIENTS: dict[str, Callable[[str, str, str, Sequence[str]], Client]] = {
    "confluent-kafka": Librdkafka,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
}


class Counting:
    """Makes calls, and counts them and what went wrong."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.failures: list[str] = []
        self.failed = 0

    def check(self, name: str, work: Callable[[], T], expected: Callable[[T], bool]) -> T | None:
        """The call's result; one that is not as expected is a failure."""
        self.calls[name] += 1
        try:
            found = work()
            if expected(found):
                return found
            reason = f"{found!r}"[:200]
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:200]
        self.failed += 1
        if len(self.failures) < FAILURES_SHOWN:
            self.failures.append(f"{name}: {reason}")
        return None


def session(counting: Counting, client: Client, topic: str, draw: random.Random) -> None:
    """What is done with one login."""
    began_ms = int(time.time() * 1_000)
    before = counting.check("end", client.end, lambda found: found >= 0)
    if before is None:
        return
    wanted: list[Pair] = []
    for number in range(RECORDS):
        key = draw.randbytes(draw.randrange(1, 40))
        value = None if number % 16 == 7 else draw.randbytes(draw.randrange(0, 400))
        wanted.append((key, value))
        counting.check("put", partial(client.put, key, value), (before + number).__eq__)

    def read(offset: int, count: int) -> list[Pair]:
        return list(client.read(offset, count))

    counting.check("read", partial(read, before, RECORDS), wanted.__eq__)
    for number in range(0, RECORDS, 2):
        one = wanted[number : number + 1]
        counting.check("read one", partial(read, before + number, 1), one.__eq__)
    counting.check("topics", client.topics, lambda found: topic in found)
    since = partial(client.first_since, began_ms)
    for place in range(before, before + 10):
        counting.check("commit", partial(client.commit, place), lambda _: True)
        counting.check("committed", client.committed, place.__eq__)
        counting.check("end", client.end, (before + RECORDS).__eq__)
        counting.check("offsets for times", since, before.__eq__)


def main() -> None:
    given = json.loads(sys.argv[1])
    counting, draw = Counting(), random.Random(given["seed"])
    for number in range(given["logins"]):
        mechanism = MECHANISMS[number % len(MECHANISMS)]
        log_in = partial(
            CLIENTS[given["client"]], given["address"], given["topic"], mechanism, given["key"]
        )
        client = counting.check("log in", log_in, lambda found: found is not None)
        if client is not None:
            session(counting, client, given["topic"], draw)
            client.close()
    counted = {
        "calls": counting.calls, "failed": counting.failed, "failures": counting.failures
    }  # fmt: skip
    sys.stdout.write(json.dumps(counted) + "\n")


if __name__ == "__main__":
    main()

"""Kafka's clients as members of groups."""

import base64
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient
from tests.server_process import Key
from tests.waiting import eventually, limit_s


@dataclass(frozen=True)
class Reach:
    """How clients reach one server, and calls of its REST API."""

    address: str
    url: str
    key: Key

    def librdkafka(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": self.key.key_id,
            "sasl.password": self.key.secret,
        }

    def in_python(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": self.key.key_id,
            "sasl_plain_password": self.key.secret,
        }

    def consumer(self, group: str, **settings: Any) -> Consumer:
        shared = {
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
        }
        return Consumer({**self.librdkafka(), **shared, **settings})

    def admin(self) -> AdminClient:
        return AdminClient(self.librdkafka())

    def rest(self, method: str, path: str, document: Any = None) -> Any:
        token = base64.b64encode(f"{self.key.key_id}:{self.key.secret}".encode()).decode()
        request = urllib.request.Request(
            f"{self.url}/rest/v1/{path}",
            method=method,
            headers={"Authorization": f"Basic {token}", "Content-Type": "application/json"},
            data=None if document is None else json.dumps(document).encode(),
        )
        with urllib.request.urlopen(request, timeout=limit_s()) as reply:
            return json.load(reply)

    def topic(self, name: str, partitions: int = 4, messages: int = 200) -> None:
        self.rest("POST", "topics", {"name": name, "partitions": partitions})
        self.produce(name, messages)

    def produce(self, name: str, messages: int) -> None:
        producer = Producer(self.librdkafka())
        for number in range(messages):
            producer.produce(name, key=str(number), value=f"v{number}")
        assert producer.flush(limit_s()) == 0

    def shown(self, topic: str, group: str) -> Any:
        """The group as our own tools see it."""
        return self.rest("GET", f"topics/{topic}/groups/{group}")


def read(consumers: Sequence[Consumer], count: int, *, commits: bool = True) -> list[Message]:
    """So many messages of all consumers together, each committed."""
    found: list[Message] = []

    def enough() -> bool:
        for consumer in consumers:
            for message in available(consumer):
                error = message.error()
                assert error is None, error
                found.append(message)
                if commits:
                    consumer.commit(message=message, asynchronous=False)
                if len(found) == count:
                    return True
        return False

    eventually(f"{count} messages are read", enough, state=lambda: len(found))
    return found


def available(consumer: Consumer) -> Iterator[Message]:
    """Messages and errors, until none comes at once."""
    while (message := consumer.poll(0.05)) is not None:
        yield message


def until(what: str, consumers: Sequence[Consumer], reached: Callable[[], bool]) -> None:
    """Poll until it is reached, as members of a group must."""

    def polled() -> bool:
        for consumer in consumers:
            if not reached():  # since a poll may pass over a message
                consumer.poll(0.05)
        return reached()

    eventually(what, polled, state=lambda: [held(consumer) for consumer in consumers])


def held(consumer: Consumer) -> set[int]:
    """Partitions that a consumer has now."""
    return {part.partition for part in consumer.assignment()}


_IN_A_PROCESS = """import json, sys
from confluent_kafka import Consumer
settings, topic = json.loads(sys.argv[1]), sys.argv[2]
consumer = Consumer(settings)
consumer.subscribe([topic])
shown = set()
while True:
    consumer.poll(0.1)
    held = sorted(part.partition for part in consumer.assignment())
    if tuple(held) not in shown:
        shown.add(tuple(held))
        print(json.dumps(held), flush=True)
"""


def consumer_process(
    reach: Reach, group: str, topic: str, **settings: Any
) -> "subprocess.Popen[str]":
    """A consumer that can be killed; each line is the partitions that it has."""
    whole = {**reach.librdkafka(), "group.id": group, **settings}
    command = [sys.executable, "-c", _IN_A_PROCESS, json.dumps(whole), topic]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

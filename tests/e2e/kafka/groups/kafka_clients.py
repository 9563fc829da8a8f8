"""Kafka's clients as members of groups."""

import base64
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from tests.server_process import Key

PATIENCE_S = 60.0  # on a machine that is busy with other tests


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
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            return json.load(reply)

    def topic(self, name: str, partitions: int = 4, messages: int = 200) -> None:
        self.rest("POST", "topics", {"name": name, "partitions": partitions})
        self.produce(name, messages)

    def produce(self, name: str, messages: int) -> None:
        producer = Producer(self.librdkafka())
        for number in range(messages):
            producer.produce(name, key=str(number), value=f"v{number}")
        assert producer.flush(PATIENCE_S) == 0

    def shown(self, topic: str, group: str) -> Any:
        """The group as our own tools see it."""
        return self.rest("GET", f"topics/{topic}/groups/{group}")


def read(consumers: Sequence[Consumer], count: int, *, commits: bool = True) -> list[Message]:
    """So many messages of all consumers together, each committed."""
    found: list[Message] = []
    end_s = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < end_s:
        for consumer in consumers:
            message = consumer.poll(0.05)
            if message is None:
                continue
            error = message.error()
            assert error is None, error
            found.append(message)
            if commits:
                consumer.commit(message=message, asynchronous=False)
    assert len(found) == count
    return found


def until(consumers: Sequence[Consumer], reached: Callable[[], bool]) -> list[KafkaError]:
    """Poll until it is reached; errors that consumers reported."""
    errors: list[KafkaError] = []
    end_s = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < end_s
        for consumer in consumers:
            message = consumer.poll(0.05)
            error = message.error() if message is not None else None
            if error is not None:
                errors.append(error)
    return errors


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

"""Both systems as the loads see them: an address, settings of clients, topics, CPU and memory."""

import contextlib
import importlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import psutil

from bench.builds import Build, Settings, fastest_package
from bench.client import Client
from bench.server import KEY_ID, SECRET, ServerProcess
from opentalos.backends.jars import fetch
from opentalos.backends.kafka import KafkaBackend
from opentalos.cli.demo.leftovers import guarded
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.rest_client import RestClient

ROOT: Final = Path(__file__).resolve().parents[2]
OURS: Final = "OpenTalos"
KAFKA: Final = "Kafka"
SYSTEMS: Final = (OURS, KAFKA)
DISK: Final = "disk"  # an answer says that the disk has it
MEMORY: Final = "memory"  # the operating system has it
DURABILITY: Final = {DISK: "synced", MEMORY: "flushed"}
TOPIC_SETTINGS: Final = {DISK: {"flush.messages": "1"}, MEMORY: {}}
KAFKA_FREES: Final = {"file.delete.delay.ms": "1000"}  # or the disk fills while it is measured
WAIT_S: Final = 60.0
PARTITIONS_MAX: Final = 1_000
_admin: Any = importlib.import_module("confluent_kafka.admin")


class System(Protocol):
    """A running system."""

    name: str

    @property
    def address(self) -> str:
        """HOST:PORT for ``bootstrap.servers``."""

    @property
    def java(self) -> Mapping[str, str]:
        """What Java clients need to connect."""

    @property
    def librdkafka(self) -> Mapping[str, str]:
        """What clients of librdkafka need to connect."""

    @property
    def pid(self) -> int:
        """Of the server."""

    def create(self, topic: str, partitions: int, table: str) -> None:
        """Make a topic that acknowledges as ``table`` says."""

    def delete(self, topic: str) -> None:
        """Delete a topic with its files."""


def cpu_s(system: System) -> float:
    """CPU seconds of the server since its start."""
    used = psutil.Process(system.pid).cpu_times()
    return float(used.user + used.system)


def rss_mb(system: System) -> float:
    """Resident memory of the server."""
    return float(psutil.Process(system.pid).memory_info().rss) / (1 << 20)


@dataclass
class OurSystem:
    """A server of this checkout, compiled as far as it is built."""

    server: ServerProcess
    name: str = OURS

    @property
    def address(self) -> str:
        record = json.loads((self.server.data / "server.json").read_text())
        return str(record["kafka"])

    @property
    def java(self) -> Mapping[str, str]:
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{login} username="{KEY_ID}" password="{SECRET}";',
        }

    @property
    def librdkafka(self) -> Mapping[str, str]:
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": KEY_ID,
            "sasl.password": SECRET,
        }

    @property
    def pid(self) -> int:
        return self.server.pid

    def create(self, topic: str, partitions: int, table: str) -> None:
        Client(self.server.port).create_topic(topic, partitions, durability=DURABILITY[table])

    def delete(self, topic: str) -> None:
        config = ClientConfig(endpoints=(self.server.url,), key_id=KEY_ID, secret=SECRET)
        RestClient(config)("DELETE", f"topics/{topic}")


@dataclass
class KafkaSystem:
    """Apache Kafka with the settings of its backend here."""

    backend: KafkaBackend
    name: str = KAFKA

    @property
    def address(self) -> str:
        return self.backend.hosts

    @property
    def java(self) -> Mapping[str, str]:
        return {}

    @property
    def librdkafka(self) -> Mapping[str, str]:
        return {"bootstrap.servers": self.address}

    @property
    def pid(self) -> int:
        pid = self.backend.daemon(self.backend.kind).pid
        assert pid is not None
        return pid

    def create(self, topic: str, partitions: int, table: str) -> None:
        config = KAFKA_FREES | TOPIC_SETTINGS[table]
        new = _admin.NewTopic(topic, partitions, 1, config=config)
        client = self._client()
        self._done(client.create_topics([new]))

    def delete(self, topic: str) -> None:
        client = self._client()
        self._done(client.delete_topics([topic]))

    def _client(self) -> Any:
        """The caller keeps it until it is done: it ends with its last reference."""
        return _admin.AdminClient(dict(self.librdkafka))

    def _done(self, futures: Mapping[str, Any]) -> None:
        for future in futures.values():
            future.result(WAIT_S)


@contextlib.contextmanager
def our_system(work: Path) -> Iterator[tuple[OurSystem, float]]:
    """A new server, and the seconds until it was ready."""
    settings: Settings = {
        "kafka": {"listen": "127.0.0.1:0"},
        "topic": {"partitions_max": PARTITIONS_MAX},
        "kafka_group": {
            "initial_delay_s": 0
        },  # as group.initial.rebalance.delay.ms=0 of Kafka here
    }
    build = Build("kafka", fastest_package(ROOT), settings)
    with build.server(work / "ours") as server:
        yield OurSystem(server), server.ready_s


@contextlib.contextmanager
def kafka_system(work: Path) -> Iterator[tuple[KafkaSystem, float]]:
    """A new Kafka, formatted before, and the seconds until it was ready."""
    fetch("kafka", print)
    backend = KafkaBackend(work / "kafka")
    with guarded(work / "kafka"):
        backend.start(quiet, port=0)
        backend.stop(quiet)
        begin = time.perf_counter()
        backend.start_daemon(backend.kind)
        backend.wait_ready(quiet)
        yield KafkaSystem(backend), time.perf_counter() - begin


def quiet(_text: str) -> None:
    """Says nothing."""


@contextlib.contextmanager
def both(work: Path) -> Iterator[tuple[System, System]]:
    """One of each, running."""
    with our_system(work) as (ours, _), kafka_system(work) as (kafka, _):
        yield ours, kafka

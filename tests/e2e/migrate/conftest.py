"""Two real servers, and the command between them."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.sdk.conftest import config_of
from tests.server_process import ROOT_KEY, TALOS, ServerProcess
from tests.waiting import limit_s

from opentalos.sdk import Client, Message, Record, SimpleConsumer, SimpleProducer, TalosAdmin

KEY = f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}"


@dataclass
class Pair:
    """Source and target, and a home for the state file."""

    folder: Path
    source: ServerProcess
    target: ServerProcess
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *options: object) -> "subprocess.Popen[str]":
        """The command in a process of its own."""
        known = {name: item for name, item in os.environ.items() if not name.startswith("TALOS_")}
        known |= {"HOME": str(self.folder), "TALOS_SOURCE_KEY": KEY, "TALOS_TARGET_KEY": KEY}
        command = [TALOS, "migrate", self.source.url, self.target.url, *options]
        return subprocess.Popen(
            list(map(str, command)), cwd=self.folder, env=known | self.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *options: object, status: int = 0) -> tuple[str, str]:
        """Run to the end; stdout and stderr."""
        process = self.start(*options)
        out, err = process.communicate(timeout=limit_s())
        assert process.returncode == status, out + err
        assert "Traceback" not in err
        return out, err

    def rows(self, *options: object, status: int = 0) -> list[dict[str, Any]]:
        out, _ = self.run(*options, "--format", "json", status=status)
        return [json.loads(line) for line in out.splitlines()]

    def checked(self) -> None:
        """Both sides are equal, by the command and by our own reading of all topics."""
        rows = self.rows("--check")
        assert rows
        assert {row["result"] for row in rows} == {"ok"}

    def create(self, topic: str, partitions: int = 1, **settings: Any) -> None:
        with Client(config_of(self.source.url)) as client:
            TalosAdmin(client).topics.create(topic, partitions=partitions, **settings)

    def put(self, topic: str, messages: Sequence[Message], partition: int = 0) -> None:
        with SimpleProducer(config_of(self.source.url), topic, partition) as producer:
            producer.put(messages)

    def fill(self, topic: str, blocks: int, partition: int = 0, data: str = "m") -> None:
        """Blocks of three messages."""
        with SimpleProducer(config_of(self.source.url), topic, partition) as producer:
            for number in range(blocks):
                producer.put([f"{data}{number}.{item}".encode() for item in range(3)])


def records_of(server: ServerProcess, topic: str, partition: int = 0) -> list[Record]:
    """Every message of a partition."""
    found: list[Record] = []
    with SimpleConsumer(config_of(server.url), topic) as consumer:
        offset, end = consumer.offsets()[partition]
        while offset < end:
            found += consumer.fetch(partition, offset)
            offset = found[-1].offset + 1
    return found


def contents(records: Sequence[Record]) -> list[tuple[Any, ...]]:
    """Without topic and append time."""
    return [
        (item.partition, item.offset, item.data, item.partition_key, item.sequence_number,
         item.create_ms, item.message_type, item.schema_fingerprint, item.tag)
        for item in records
    ]  # fmt: skip


@pytest.fixture
def configs() -> Mapping[str, str]:
    """Configurations of the servers; tests override it."""
    return {}


@pytest.fixture
def pair(tmp_path: Path, configs: Mapping[str, str]) -> Iterator[Pair]:
    source, target = (
        ServerProcess(tmp_path / side, configs.get(side, "")) for side in ("source", "target")
    )
    try:
        yield Pair(tmp_path, source.start(), target.start())
    finally:
        source.kill()
        target.kill()

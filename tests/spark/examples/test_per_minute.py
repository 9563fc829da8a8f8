"""The example of a Spark program runs as its text says, twice, and stores each count once."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.spark.archived import archived, each_once
from tests.spark.conftest import TalosServer

from opentalos.sdk import Message, SimpleConsumer, SimpleProducer, TalosAdmin

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "spark_per_minute.py"
MINUTE_MS = 60_000
BEGIN_MS = 29_000_000 * MINUTE_MS
RUN_S = 280.0


def put(server: TalosServer, *minutes: int) -> None:
    """Three messages of ``a`` and one of ``b`` in each of these minutes."""
    with SimpleProducer(server.config, "clicks", 0) as producer:
        for minute in minutes:
            at = BEGIN_MS + minute * MINUTE_MS
            producer.put([Message(b"1234", key, create_ms=at) for key in ("a", "a", "b", "a")])


def counts(server: TalosServer) -> Counter[tuple[str, str, int, int]]:
    with SimpleConsumer(server.config, "clicks-per-minute") as consumer:
        rows = [
            json.loads(record.data)
            for partition, kept in consumer.offsets().items()
            if kept.next
            for record in consumer.fetch(partition, 0)
        ]
    return Counter((row["minute"], row["key"], row["messages"], row["bytes"]) for row in rows)


def run(server: TalosServer, folder: Path) -> None:
    key = {"TALOS_URL": server.url, "TALOS_KEY": server.key}
    command = [sys.executable, str(EXAMPLE), "clicks", "clicks-per-minute", str(folder), "--now"]
    done = subprocess.run(
        command, env={**os.environ, **key}, capture_output=True, text=True, timeout=RUN_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == ["per-minute is done", "archive is done"]


@pytest.mark.timeout(600)
def test_the_example_counts_each_minute_once(server: TalosServer, tmp_path: Path) -> None:
    with TalosAdmin(server.config) as admin:
        admin.topics.create("clicks", partitions=1)
        admin.topics.create("clicks-per-minute", partitions=2)
    put(server, 0, 1, 2)
    run(server, tmp_path)
    first = counts(server)
    put(server, 3, 4)
    run(server, tmp_path)
    found = counts(server)
    assert first <= found
    assert len(first) == 2  # minute 0 with two keys: later ones may still get messages
    assert len(found) == 6  # minutes 0, 1 and 2
    assert set(found.values()) == {1}
    assert {item[1:] for item in found} == {("a", 3, 12), ("b", 1, 4)}
    assert archived(tmp_path / "all") == each_once({0: 20})

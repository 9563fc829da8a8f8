"""The example of a Spark program runs as its text says, twice, and stores each count once.

In its first run a query fails for a reason that passes, as it does on a busy machine.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path

from tests.spark.archived import archived, each_once
from tests.spark.conftest import TalosServer
from tests.spark.java_classes import quick_environment
from tests.spark.kills.copying import read_all
from tests.waiting import completed

from opentalos.sdk import Message, SimpleProducer, TalosAdmin

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "spark_per_minute.py"
MINUTE_MS = 60_000
BEGIN_MS = 29_000_000 * MINUTE_MS
TARGET_PARTITIONS = 2
# Spark waits ten seconds for the Python of a query's source; a busy machine may need longer.
LATE = """
import os, sys, time

if "pyspark.sql.streaming.python_streaming_source_runner" in sys.orig_argv:
    try:
        os.close(os.open(os.environ["LATE_FLAG"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        pass
    else:
        time.sleep(11)
"""


def put(server: TalosServer, *minutes: int) -> None:
    """Three messages of ``a`` and one of ``b`` in each of these minutes."""
    with SimpleProducer(server.config, "clicks", 0) as producer:
        for minute in minutes:
            at = BEGIN_MS + minute * MINUTE_MS
            producer.put([Message(b"1234", key, create_ms=at) for key in ("a", "a", "b", "a")])


def counts(server: TalosServer) -> Counter[tuple[str, str, int, int]]:
    rows = [
        json.loads(data)
        for partition in range(TARGET_PARTITIONS)
        for data in read_all(server.config, "clicks-per-minute", partition)
    ]
    return Counter((row["minute"], row["key"], row["messages"], row["bytes"]) for row in rows)


def run(server: TalosServer, folder: Path, **more: str) -> str:
    """One run of the example to its end; what it said on stderr."""
    command = [sys.executable, str(EXAMPLE), "clicks", "clicks-per-minute", str(folder), "--now"]
    environment = {
        **os.environ,
        "TALOS_URL": server.url,
        "TALOS_KEY": server.key,
        **quick_environment(),
        **more,
    }
    done = completed(command, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == ["archive is done", "per-minute is done"]
    return done.stderr


def late_once(folder: Path) -> dict[str, str]:
    """An environment in which the first query's Python starts too late for Spark, once."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(LATE)
    path = f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return {"PYTHONPATH": path, "LATE_FLAG": str(folder / "was-late")}


def test_the_example_counts_each_minute_once(server: TalosServer, tmp_path: Path) -> None:
    with TalosAdmin(server.config) as admin:
        admin.topics.create("clicks", partitions=1)
        admin.topics.create("clicks-per-minute", partitions=TARGET_PARTITIONS)
    put(server, 0, 1, 2)
    said = run(server, tmp_path, **late_once(tmp_path / "late"))
    assert "starts again: " in said
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

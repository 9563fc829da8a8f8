"""The bill is the log, however often driver and server die; OPENTALOS_KILLS sets how often.

Usage is in Parquet below --home, or in a table of Delta.
"""

import os
import random
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.server_process import TALOS, ServerProcess
from tests.spark.conftest import TalosServer
from tests.spark.kills.copying import read_all
from tests.spark.lakes import LAKES, lake_url
from tests.spark.pipeline_process import PipelineProcess
from tests.waiting import elapse, limit_s

from opentalos.pipelines.billing.pipeline import BILLING
from opentalos.pipelines.billing.reconcile import Reconciliation, reconcile
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.metering.usage_chains import UsageChains
from opentalos.pipelines.metering.usage_table import LAYOUT
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.sdk import TalosAdmin, TalosProducer

KILLS = int(os.environ.get("OPENTALOS_KILLS", "2"))
SERVER_KILLED_EVERY = 2  # kills of the driver
SEED = 6
TOPICS = {"orders": 3, "clicks": 1}  # partitions
PUTS_PER_STEP = 20
STEP_S = 0.1
OUTAGE_S = "900"  # of Python workers, too, which Spark gives ten seconds to start
LATER_S = 3.0  # at most from the first batch of a driver to its kill
PLAN = """\
plan = "standard"
valid_from = "2020-01"
currency = "EUR"
decimals = 4

[records]

[[records.tier]]
from = 0
price = 0.0001
"""


class Traffic(threading.Thread):
    """Puts to all topics until it is stopped; every put must be acknowledged in the end."""

    def __init__(self, server: TalosServer) -> None:
        super().__init__(name="traffic")
        self._config = server.config
        self._ending = threading.Event()
        self.sent = dict.fromkeys(TOPICS, 0)
        self.failed: list[object] = []

    def run(self) -> None:
        producers = {topic: TalosProducer(self._config, topic) for topic in TOPICS}
        while not self._ending.wait(STEP_S):
            for topic, producer in producers.items():
                for _ in range(PUTS_PER_STEP):
                    payload = f"{topic} {self.sent[topic]}".encode()
                    producer.put(payload, on_error=lambda *failure: self.failed.append(failure))
                    self.sent[topic] += 1
        for producer in producers.values():
            producer.close()

    def end(self) -> None:
        self._ending.set()
        self.join()


@pytest.fixture
def metered(tmp_path: Path) -> Iterator[TalosServer]:
    """A server of its own, which is killed, too; usage is published each second."""
    config = "[metering]\ninterval_s = 1.0\n"
    process = ServerProcess(tmp_path / "server", config=config).start()
    server = TalosServer(process)
    with TalosAdmin(server.config) as admin:
        for topic, partitions in TOPICS.items():
            admin.topics.create(topic, partitions=partitions)
    try:
        yield server
    finally:
        process.kill()


@contextmanager
def metering(server: TalosServer, home: Path, lake: str) -> Iterator[PipelineProcess]:
    argv = ("--trigger", "0.5", "--outage", OUTAGE_S, "--lake", lake)
    run = PipelineProcess(server, home, "run", "metering", *argv)
    try:
        yield run
    finally:
        run.kill()


def billed(table: LakeTable) -> dict[tuple[str, int], int]:
    """Records in the table by topic and partition; every row of a partition counts."""
    with UsageChains(table, floors={}) as usage:
        return {
            (chain.name, chain.partition): chain.records
            for bucket in usage.buckets()
            for chain in bucket.chains()
        }


def stored(server: TalosServer) -> dict[tuple[str, int], list[bytes]]:
    """All messages, read by the plain SDK."""
    return {
        (topic, partition): read_all(server.config, topic, partition)
        for topic, partitions in TOPICS.items()
        for partition in range(partitions)
    }


def reconciled(server: TalosServer, home: Path, lake: str) -> Reconciliation:
    return reconcile(server.url, server.key, home, lake=lake)


def talos(server: TalosServer, *argv: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TALOS_URL": server.url, "TALOS_KEY": server.key}
    # Longer than what the command itself waits.
    return subprocess.run(
        [str(TALOS), *argv], env=environment, capture_output=True, text=True, timeout=2 * limit_s()
    )


@pytest.mark.timeout(900 + 240 * KILLS)  # twenty in ``make faults``
@pytest.mark.parametrize("kind", LAKES)
def test_the_bill_equals_the_log_after_kills_of_driver_and_server(
    spark: SparkSession, metered: TalosServer, tmp_path: Path, kind: str
) -> None:
    dice, home = random.Random(SEED), tmp_path / "home"
    lake = lake_url(kind, home)
    traffic = Traffic(metered)
    traffic.start()
    try:
        for kill in range(KILLS):
            with metering(metered, home, lake) as run:
                run.wait_for("metering  batch ")
                if kill % SERVER_KILLED_EVERY == 0:
                    metered.process.kill()
                    metered.process.start()
                elapse("the kill falls anywhere in a batch", dice.uniform(0.0, LATER_S))
            assert not reconciled(metered, home, lake).difference
    finally:
        traffic.end()
    assert not traffic.failed
    with metering(metered, home, lake) as run:
        places = ("--home", str(home), "--lake", lake)
        ended = talos(metered, "bill", "reconcile", *places, "--wait", str(limit_s()))
        assert run.stop() == 0
    assert ended.stdout.splitlines()[-1] == "difference 0", ended.stdout + ended.stderr
    assert ended.returncode == 0
    assert ", 0 records pending" in ended.stdout

    messages = stored(metered)
    table = pipeline_table(home, lake, LAYOUT)
    assert billed(table) == {place: len(found) for place, found in messages.items()}
    for topic, count in traffic.sent.items():
        found = [item for place, kept in messages.items() if place[0] == topic for item in kept]
        assert sorted(found) == sorted(f"{topic} {number}".encode() for number in range(count))

    assert amount_billed(spark, home, lake) == sum(traffic.sent.values()) * Decimal("0.0001")
    tampered = tamper(table)
    short = reconciled(metered, home, lake)
    # All of it in one hour: then nothing is metered, which is late and not wrong.
    assert short.difference or (short.pending and not tampered)


def amount_billed(spark: SparkSession, home: Path, lake: str) -> Decimal:
    """The sum of the invoices of this month and the last: the test may run over midnight."""
    plans = home / "plans"
    plans.mkdir()
    (plans / "standard.toml").write_text(PLAN)
    total = Decimal(0)
    for month in ("this", "last"):
        options = {"plans": str(plans), "default-plan": "standard", "month": month}
        settings = PipelineSettings(url="", key="", home=home, lake=lake, options=options)
        BILLING.run(spark, settings)
    for totals in (home / "invoices").glob("*/current/totals.parquet"):
        total += sum(pq.ParquetFile(totals).read()["amount"].to_pylist())
    return total


def tamper(table: LakeTable) -> int:
    """Remove the oldest hour, so that what was judged above can fail; the rows that are left."""
    first_us = table.summary().first_us
    assert first_us is not None
    assert table.expire(first_us // 1000 + HOUR_MS)
    return table.summary().rows

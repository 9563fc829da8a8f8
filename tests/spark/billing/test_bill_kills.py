"""The bill is the log, however often driver and server die; OPENTALOS_KILLS sets how often."""

import os
import random
import subprocess
import threading
import time
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
from tests.spark.pipeline_process import WAIT_S, PipelineProcess

from opentalos.pipelines.billing.pipeline import BILLING
from opentalos.pipelines.billing.reconcile import Reconciliation, reconcile
from opentalos.pipelines.metering.usage_lake import UsageLake
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.sdk import TalosAdmin, TalosProducer

KILLS = int(os.environ.get("OPENTALOS_KILLS", "2"))
SERVER_KILLED_EVERY = 2  # kills of the driver
SEED = 6
TOPICS = {"orders": 3, "clicks": 1}  # partitions
PUTS_PER_STEP = 20
STEP_S = 0.1
OUTAGE_S = "900"  # of Python workers, too, which Spark gives ten seconds to start
READY_S = 60.0  # of a server beside a Spark session that starts
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
    process = ServerProcess(tmp_path / "server", config=config, ready_timeout_s=READY_S).start()
    server = TalosServer(process)
    with TalosAdmin(server.config) as admin:
        for topic, partitions in TOPICS.items():
            admin.topics.create(topic, partitions=partitions)
    try:
        yield server
    finally:
        process.kill()


@contextmanager
def metering(server: TalosServer, home: Path) -> Iterator[PipelineProcess]:
    run = PipelineProcess(server, home, "run", "metering", "--trigger", "0.5", "--outage", OUTAGE_S)
    try:
        yield run
    finally:
        run.kill()


def billed(home: Path) -> dict[tuple[str, int], int]:
    """Records in the table by topic and partition; every row of a partition counts."""
    with UsageLake(home) as lake:
        return {
            (item.name, item.partition): sum(row.records for row in lake.minutes(*key))
            for key, item in lake.partitions().items()
        }


def stored(server: TalosServer) -> dict[tuple[str, int], list[bytes]]:
    """All messages, read by the plain SDK."""
    return {
        (topic, partition): read_all(server.config, topic, partition)
        for topic, partitions in TOPICS.items()
        for partition in range(partitions)
    }


def reconciled(server: TalosServer, home: Path) -> Reconciliation:
    return reconcile(server.url, server.key, home)


def talos(server: TalosServer, *argv: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TALOS_URL": server.url, "TALOS_KEY": server.key}
    return subprocess.run(
        [str(TALOS), *argv], env=environment, capture_output=True, text=True, timeout=2 * WAIT_S
    )


@pytest.mark.timeout(600 + KILLS * WAIT_S)
def test_the_bill_equals_the_log_after_kills_of_driver_and_server(
    spark: SparkSession, metered: TalosServer, tmp_path: Path
) -> None:
    dice, home = random.Random(SEED), tmp_path / "home"
    traffic = Traffic(metered)
    traffic.start()
    try:
        for kill in range(KILLS):
            with metering(metered, home) as run:
                run.wait_for("metering  batch ")
                if kill % SERVER_KILLED_EVERY == 0:
                    metered.process.kill()
                    metered.process.start()
                time.sleep(dice.uniform(0.0, LATER_S))
            assert not reconciled(metered, home).difference
    finally:
        traffic.end()
    assert not traffic.failed
    with metering(metered, home) as run:
        ended = talos(metered, "bill", "reconcile", "--home", str(home), "--wait", str(WAIT_S))
        assert run.stop() == 0
    assert ended.stdout.splitlines()[-1] == "difference 0", ended.stdout + ended.stderr
    assert ended.returncode == 0
    assert ", 0 records pending" in ended.stdout

    messages = stored(metered)
    assert billed(home) == {place: len(found) for place, found in messages.items()}
    for topic, count in traffic.sent.items():
        found = [item for place, kept in messages.items() if place[0] == topic for item in kept]
        assert sorted(found) == sorted(f"{topic} {number}".encode() for number in range(count))

    assert amount_billed(spark, home) == sum(traffic.sent.values()) * Decimal("0.0001")
    assert not tampered_difference_is_zero(metered, home)


def amount_billed(spark: SparkSession, home: Path) -> Decimal:
    """The sum of the invoices of this month and the last: the test may run over midnight."""
    plans = home / "plans"
    plans.mkdir()
    (plans / "standard.toml").write_text(PLAN)
    total = Decimal(0)
    for month in ("this", "last"):
        options = {"plans": str(plans), "default-plan": "standard", "month": month}
        settings = PipelineSettings(url="", key="", home=home, options=options)
        BILLING.run(spark, settings)
    for totals in (home / "invoices").glob("*/current/totals.parquet"):
        total += sum(pq.ParquetFile(totals).read()["amount"].to_pylist())
    return total


def tampered_difference_is_zero(server: TalosServer, home: Path) -> bool:
    """Whether a missing hour goes unnoticed: what was judged above can fail."""
    oldest = sorted((home / "lake" / "usage").glob("*.parquet"))[0]
    oldest.unlink()
    found = reconciled(server, home)
    # All of it in one hour: then nothing is metered, which is late and not wrong.
    return not found.difference and not found.pending

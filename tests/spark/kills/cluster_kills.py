"""Sink, archive and metering in one driver on a cluster of Spark, killed with its executors.

A run of the pipelines ``copy`` (topic to topic), ``archive`` and ``metering`` reads what is put all
the time. Copy, archive and bill are judged at the end: each message once, and nothing else.
"""

import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

import psutil
import pyarrow.parquet as pq
from tests.spark.archived import each_once
from tests.spark.billing.test_bill_kills import PLAN
from tests.spark.conftest import TalosServer
from tests.spark.kills.copying import KEYS, PARTITIONS, ROOT, Copying, read_all
from tests.spark.pipeline_process import PipelineProcess
from tests.spark.standalone.standalone_cluster import (
    Family,
    StandaloneCluster,
    conf_options,
    killed,
    small_driver,
)
from tests.waiting import elapse, eventually, limit_s

from opentalos.pipelines.billing.reconcile import Reconciliation, reconcile
from opentalos.pipelines.lake.layout import Span
from opentalos.pipelines.lake.opening import open_existing, pipeline_table
from opentalos.pipelines.lake.periods.month import Month
from opentalos.pipelines.metering.usage_table import LAYOUT
from opentalos.sdk import Message, TalosProducer

PIPELINES: Final = ("copy", "archive", "metering")
METERED: Final = "[metering]\ninterval_s = 1.0\n"
# After which batches an executor is killed, and after which then the driver.
LIVES: Final[tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]] = (
    (("copy",), PIPELINES),
    ((), ()),
    (("archive",), ("copy", "archive")),
)
PUTS_PER_STEP: Final = 40
STEP_S: Final = 0.1
BATCH: Final = 20_000  # messages of a trigger, at most
OUTAGE_S: Final = 900  # of Python workers, too, which Spark gives ten seconds to start
LATER_S: Final = 4.0  # at most from what is waited for to the kill
PRICE: Final = Decimal("0.0001")  # of a record, in PLAN


class Traffic(threading.Thread):
    """Puts to the source until it ends; each put must be acknowledged in the end."""

    def __init__(self, copying: Copying) -> None:
        super().__init__(name="traffic")
        self._copying = copying
        self._ending = threading.Event()
        self.failed: list[object] = []

    def run(self) -> None:
        copying, number = self._copying, 0
        with TalosProducer(copying.server.config, copying.source) as producer:
            while not self._ending.wait(STEP_S):
                for _ in range(PUTS_PER_STEP):
                    key = KEYS[number % len(KEYS)]
                    message = Message(f"{key}:{copying.sent[key]}".encode(), partition_key=key)
                    producer.put(message, on_error=lambda *failure: self.failed.append(failure))
                    copying.sent[key] += 1
                    number += 1

    def end(self) -> None:
        self._ending.set()
        self.join()


@dataclass
class ClusterKills:
    """One source topic, what is made of it, and the lives of the driver that makes it.

    Args: hdfs: corner of HDFS for the lake and the archive; folder: of the home and the drivers.
    """

    server: TalosServer
    spark: StandaloneCluster
    hdfs: str
    folder: Path

    def __post_init__(self) -> None:
        self.copying = Copying(self.server, "killed-on-a-cluster", self.folder)
        self.lake, self.archive = f"delta+{self.hdfs}/lake", f"delta+{self.hdfs}/archive"
        self.home = self.folder / "home"
        self.lives, self.executors_killed, self.drivers_killed = 0, 0, 0
        self._dice = random.Random(50)

    @contextmanager
    def traffic(self) -> Iterator[None]:
        """Messages are put meanwhile."""
        traffic = Traffic(self.copying)
        traffic.start()
        try:
            yield
        finally:
            traffic.end()
        assert not traffic.failed

    @contextmanager
    def driver(self) -> Iterator["Family"]:
        """The pipelines run; in the end they are killed with everything that they have started."""
        folder = self.folder / f"driver-{self.lives}"
        self.lives += 1
        command = [
            sys.executable, "-m", "tests.spark.kills.copy_pipeline", "pipeline", "run", *PIPELINES,
            "--home", str(self.home), "--lake", self.lake, "--master", self.spark.url,
            "--trigger", "2", "--messages-per-trigger", str(BATCH), "--outage", str(OUTAGE_S),
            "-o", f"copy.source={self.copying.source}", "-o", f"copy.target={self.copying.target}",
            "-o", f"archive.topics={self.copying.source}", "-o", f"archive.path={self.archive}",
            *conf_options(small_driver(folder)),
        ]  # fmt: skip
        environment = {
            **os.environ,
            "TALOS_URL": self.server.url,
            "TALOS_KEY": self.server.key,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
            "PYSPARK_PYTHON": str(self.spark.folder / "environment" / "bin" / "python"),
        }
        running = Family(folder, command, environment, ROOT)
        try:
            yield running
        finally:
            running.kill()

    def life(self, *, also: Callable[[], None] | None = None) -> None:
        """A driver until it is killed; before that, one of its executors.

        In turn: once each pipeline has ended a batch; in the first batches; in the midst of
        some. A batch of ``metering`` takes longest, so its executors die during it.

        Args: also: another fault, between the two.
        """
        first, then = LIVES[self.drivers_killed % len(LIVES)]
        with self.driver() as driver:
            wait_for_batches(driver, *first)
            (lost,) = self._dice.sample(self.executors(driver), 1)
            self._later()
            killed(lost)
            self.executors_killed += 1
            if also is not None:
                also()
            wait_for_batches(driver, *then)
            self._later()
            assert driver.process.poll() is None, driver.said()
        self.drivers_killed += 1

    def close(self) -> dict[str, int]:
        """Nothing is put any more: one driver takes the rest. Returns how much was judged."""
        with self.driver() as driver:
            eventually("copy and archive have all rows", self._whole, state=driver.said)
            found = eventually("usage has all records", self._metered, state=driver.said)
            assert driver.stop() == 0, driver.said()
        assert found is not None
        assert (found.difference, found.pending, found.late) == (0, 0, []), found
        self.copying.check()
        self._check_archive()
        copied = {self.copying.source, self.copying.target}
        ours = sum(result.records for result in found.partitions if result.name in copied)
        assert ours == 2 * self.sent
        self._check_invoices()
        billed = sum(result.records for result in found.partitions)
        return {"copied": self.sent, "archived": self.sent, "billed": billed}

    @property
    def sent(self) -> int:
        return sum(self.copying.sent.values())

    def executors(self, driver: Family) -> list[psutil.Process]:
        """Of the driver that runs; those of one that was killed end by themselves."""
        driver.wait_for("Spark UI: ")
        return eventually("an executor runs", self.spark.executors, state=driver.said)

    def _later(self) -> None:
        elapse("the kill falls anywhere in a batch", self._dice.uniform(0.0, LATER_S))

    def _metered(self) -> Reconciliation | None:
        server = self.server
        found = reconcile(server.url, server.key, self.home, lake=self.lake, wait_s=limit_s())
        return None if found.pending else found

    def _whole(self) -> bool:
        return self.copying.whole() and self._archived() >= self.sent

    def _archived(self) -> int:
        return open_existing(self.archive)[0].summary().rows

    def _check_archive(self) -> None:
        rows = open_existing(self.archive)[0].read().select(["partition", "offset"])
        found = Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        config = self.server.config
        held = {
            partition: len(read_all(config, self.copying.source, partition))
            for partition in range(PARTITIONS)
        }
        assert sum(held.values()) == self.sent
        assert found == each_once(held)

    def _check_invoices(self) -> None:
        """The invoices of the month bill what is metered of it."""
        now = datetime.now(UTC)
        month = Month(now.year, now.month)
        plans = self.home / "plans"
        plans.mkdir()
        (plans / "standard.toml").write_text(PLAN)
        options = {"plans": str(plans), "default-plan": "standard", "month": str(month)}
        argv = (part for name, text in options.items() for part in ("-o", f"billing.{name}={text}"))
        bill = PipelineProcess(self.server, self.home, "run", "billing", "--lake", self.lake, *argv)
        try:
            assert bill.wait() == 0, bill.said()
        finally:
            bill.kill()
        usage = pipeline_table(self.home, self.lake, LAYOUT)
        records = usage.read(Span(month.begin_ms, month.end_ms)).column("records").to_pylist()
        totals = self.home / "invoices" / str(month) / "current" / "totals.parquet"
        amounts = pq.ParquetFile(totals).read().column("amount").to_pylist()
        assert sum(amounts) == sum(records) * PRICE


def wait_for_batches(driver: Family, *names: str) -> None:
    """Wait until each of these pipelines has ended one more batch."""
    said = driver.said()
    before = {name: said.count(f"{name}  batch ") for name in names}
    for name, times in before.items():
        driver.wait_for(f"{name}  batch ", times=times + 1)

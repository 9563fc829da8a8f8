"""The environment of ``make bench-spark``: a session, a Talos server and a Kafka broker, the same
rows in both, and alternating rounds."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
from pyspark.sql import DataFrame, SparkSession

from bench.builds import ROOT, Build, fastest_package
from bench.client import Client
from bench.server import KEY_ID, SECRET, ServerProcess
from opentalos.backends.jars import SPARK_KAFKA, fetch
from opentalos.backends.kafka import KafkaBackend
from opentalos.pipelines.session import open_session

PARTITIONS: Final = 4
CORES: Final = 2
SYSTEMS: Final = ("talos", "kafka")
_WRITE_TUNING: Final = {"kafka.linger.ms": "5", "kafka.batch.size": "262144", "kafka.acks": "all"}


@dataclass(frozen=True, slots=True)
class Round:
    """One timed job of one system."""

    rows_per_s: float
    client_cpu_s: float  # Python, JVM and workers
    server_cpu_s: float


@dataclass(slots=True)
class Rounds:
    """Alternating rounds of both systems; the first round of each is a warm-up."""

    name: str
    of: dict[str, list[Round]] = field(default_factory=lambda: {name: [] for name in SYSTEMS})

    def ratios(self) -> list[float]:
        """Talos over Kafka, round by round, without the first unless it is the only one."""
        pairs = zip(self.of["talos"], self.of["kafka"], strict=True)
        found = [ours.rows_per_s / theirs.rows_per_s for ours, theirs in pairs]
        return found[1:] or found

    def lines(self) -> Iterator[str]:
        """A line per system with all rounds."""
        for name in SYSTEMS:
            rounds = self.of[name]
            rates = " ".join(f"{round_.rows_per_s / 1000:,.0f}" for round_ in rounds)
            client = " ".join(f"{round_.client_cpu_s:.1f}" for round_ in rounds)
            server = " ".join(f"{round_.server_cpu_s:.1f}" for round_ in rounds)
            yield (
                f"  {self.name}, {name}: {rates} K rows/s by round; "
                f"CPU s of client {client}; of server {server}"
            )


class SparkBench:
    """Both systems under one session; jobs are measured in time and CPU seconds."""

    def __init__(
        self, spark: SparkSession, server: ServerProcess, kafka: KafkaBackend, work: Path
    ) -> None:
        self.spark, self.server, self.kafka, self.work = spark, server, kafka, work
        self._checkpoints = 0

    def create(self, topic: str) -> None:
        """The topic in both; neither waits for the disk before it acknowledges."""
        Client(self.server.port).create_topic(topic, PARTITIONS, durability="flushed")
        self.kafka.create_topic(topic, PARTITIONS, "retention.ms=-1")

    def options(self, system: str, topic: str) -> dict[str, str]:
        """The options that locate the topic."""
        if system == "talos":
            return {"url": self.server.url, "key": f"{KEY_ID}:{SECRET}", "topic": topic}
        return {"kafka.bootstrap.servers": self.kafka.hosts}

    def write(self, system: str, topic: str, rows: DataFrame) -> None:
        """Put all rows of a frame with key and value."""
        writer = rows.write.format(system).mode("append").options(**self.options(system, topic))
        if system == "kafka":
            writer = writer.options(**_WRITE_TUNING).option("topic", topic)
        else:
            writer = writer.option("compression", "none")
        writer.save()

    def reader_options(self, system: str, topic: str, *, limit: int = 0) -> Mapping[str, str]:
        """Options of a read of the whole topic; ``limit``: rows of a trigger of a stream."""
        found = self.options(system, topic)
        if system == "talos":
            return found | {"startingPosition": "earliest"} | _named("maxMessagesPerTrigger", limit)
        found |= {"subscribe": topic, "startingOffsets": "earliest"}
        return found | _named("maxOffsetsPerTrigger", limit)

    def checkpoint(self) -> str:
        """A new checkpoint directory."""
        self._checkpoints += 1
        return str(self.work / f"checkpoint-{self._checkpoints}")

    def timed(self, system: str, rows: int, job: Callable[[], Any]) -> Round:
        """Run a job once."""
        server_s, client_s, began = self._server_s(system), self._client_s(), time.perf_counter()
        job()
        took_s = time.perf_counter() - began
        return Round(rows / took_s, self._client_s() - client_s, self._server_s(system) - server_s)

    def _server_s(self, system: str) -> float:
        if system == "talos":
            return self.server.cpu_s()
        times = psutil.Process(self.kafka.daemon("kafka").pid).cpu_times()
        return float(times.user + times.system)

    def _client_s(self) -> float:
        """CPU seconds of this process, its JVM and the workers that are there."""
        me = psutil.Process()
        total = 0.0
        for process in (me, *me.children(recursive=True)):
            if process.pid != self.server.pid:
                with suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    total += times.user + times.system
        return total

    def rows(self, count: int, size: int) -> DataFrame:
        """Rows in memory: a thousand keys, distinct values of about ``size`` bytes."""
        text = f"repeat(sha2(cast(id as string), 256), {size * 11 // 640 + 1})"
        length = f"{size * 9 // 10} + cast(id % {size // 5} as int)"
        frame = self.spark.range(0, count, 1, PARTITIONS).selectExpr(
            "concat('k', id % 1000) as key",
            f"cast(substr({text}, 1, {length}) as binary) as value",
        )
        kept = frame.persist()
        kept.count()
        return kept


def _named(name: str, limit: int) -> dict[str, str]:
    return {name: str(limit)} if limit else {}


@contextmanager
def both(work: Path) -> Iterator[SparkBench]:
    """Start everything, and stop it afterwards."""
    jars = sorted(fetch(SPARK_KAFKA, print).glob("*.jar"))
    fetch("kafka", print)
    kafka = KafkaBackend(work / "backends")
    try:
        kafka.start(print, port=0)
        with Build("talos", fastest_package(ROOT)).server(work / "talos") as server:
            conf = {
                "spark.jars": ",".join(map(str, jars)),
                "spark.driver.memory": "3g",
                "spark.local.dir": str(work / "spark"),
            }
            spark = open_session("bench", master=f"local[{CORES}]", conf=conf)
            try:
                yield SparkBench(spark, server, kafka, work)
            finally:
                spark.stop()
    finally:
        if kafka.ports:
            kafka.stop(print)
        shutil.rmtree(work / "backends", ignore_errors=True)

"""A driver with two executors of their own, which fail for real; prints what happened as JSON.

usage: python -m tests.spark.cluster.cluster_job URL KEY FOLDER
"""

import json
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from tests.spark.java_classes import quick_java, quick_options
from tests.waiting import eventually

from opentalos.adapters.java_home import lean_spark_home
from opentalos.pipelines.archive.pipeline import ARCHIVE
from opentalos.pipelines.monitoring.pipeline import MONITORING
from opentalos.pipelines.pipeline import PipelineSettings, StreamPipeline
from opentalos.pipelines.runtime.causes import cause_of
from opentalos.pipelines.session import open_session
from opentalos.sdk import TalosAdmin
from opentalos.sdk.core.config import ClientConfig, split_key

MASTER = "local-cluster[1,1,1024]"  # and a second worker with another address, see _second_host
SECOND_HOST = "127.0.0.2"
EXECUTOR_MIB = 1024
EXECUTORS = 2
SCHEMA = "value binary"
ROW_BYTES = 1 << 20
ROWS = 35
STORED = 10  # rows of a task before it fails
EARLY = 20  # rows that a task hands on before it reads its input: more than a window of the sink
MAPS = 8  # tasks before the shuffle
SHUFFLED = 64  # their rows, of more than a megabyte
MANY_TASKS = 600
PARTS = ("speculated", "same", "reversed", "many", "archive", "rollups")


def row(number: int) -> bytes:
    """A row by its number; sixteen of them fill a window of the sink."""
    return b"%04d" % number + b"x" * (ROW_BYTES - 4)


def batch_of(numbers: range) -> Any:
    return pa.RecordBatch.from_pydict({"value": pa.array(map(row, numbers), pa.binary())})


def fetching(folder: Path, *, reversed_again: bool) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A task that stores some rows, and then needs shuffle files that are gone by then."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        first = not (folder / "begun").exists()  # Python is not told of a stage's attempts
        if first:
            next(batches)  # one map output was there
            yield from (batch_of(range(at, at + 1)) for at in range(EARLY))
            (folder / "begun").touch()
            eventually("the shuffle files are deleted", (folder / "deleted").exists)
        for _ in batches:
            pass
        if first:
            return  # never: its fetch fails
        if not context.attemptNumber():  # a first attempt, of a stage that runs again
            (folder / "again").touch()
        rows = range(ROWS)
        yield from (batch_of(range(at, at + 1)) for at in (rows[::-1] if reversed_again else rows))

    return run


def speculated(folder: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Task 0 hangs in its first attempt until Spark runs a second one beside it."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        for _ in batches:
            pass
        if context.partitionId():
            yield batch_of(range(ROWS, ROWS + 1))
            return
        (folder / f"attempt-{context.attemptNumber()}").touch()
        for at in range(ROWS):
            yield batch_of(range(at, at + 1))
            if at == EARLY and not context.attemptNumber():
                eventually("a second attempt runs", (folder / "attempt-1").exists)
                (folder / "beside").touch()

    return run


class Cluster:
    """The session, and where its topics are."""

    def __init__(self, url: str, key: str, folder: Path) -> None:
        self.url, self.key, self.folder = url, key, folder
        self.spark = _session(folder)
        key_id, secret = split_key(key, "key")
        self._config = ClientConfig(endpoints=(url,), key_id=key_id, secret=secret)

    def create(self, topic: str) -> None:
        with TalosAdmin(self._config) as admin:
            admin.topics.create(topic, partitions=1)

    def held(self, topic: str) -> int:
        """How many rows are stored."""
        with TalosAdmin(self._config) as admin:
            return admin.offsets(topic)[0].next

    def save(self, frame: DataFrame, topic: str) -> str:
        """Why it failed; empty: it did not."""
        given = {"url": self.url, "key": self.key, "topic": topic, "blockMessages": "5"}
        try:
            frame.write.format("talos").options(**given).mode("append").save()
        except Exception as error:
            return str(cause_of(error))
        return ""

    def fetch_failure(self, topic: str, *, reversed_again: bool) -> str:
        """A write whose shuffle files are deleted while it runs."""
        self.create(topic)
        folder = self.folder / topic
        folder.mkdir()

        def delete() -> None:
            eventually("the first rows are stored", lambda: self.held(topic) >= STORED)
            for found in self.folder.glob("local/**/shuffle_*.data"):
                found.unlink()
            (folder / "deleted").touch()

        thread = threading.Thread(target=delete)
        thread.start()
        run = fetching(folder, reversed_again=reversed_again)
        # More than fits between Java and Python, so that not all is fetched before it is deleted.
        large = self.spark.range(0, SHUFFLED, 1, MAPS).selectExpr(
            "repeat(cast(id % 10 AS string), 1048576) AS text"
        )
        shuffled = large.repartition(1)
        failed = self.save(shuffled.mapInArrow(run, SCHEMA), topic)
        thread.join()
        return failed if (folder / "again").exists() else f"no second attempt: {failed}"

    def speculation(self, topic: str) -> str:
        self.create(topic)
        folder = self.folder / topic
        folder.mkdir()
        frame = self.spark.range(0, 2, 1, 2).mapInArrow(speculated(folder), SCHEMA)
        failed = self.save(frame, topic)
        return failed if (folder / "beside").exists() else f"nothing was speculated: {failed}"

    def many_tasks(self, topic: str) -> str:
        self.create(topic)
        frame = self.spark.range(0, MANY_TASKS, 1, MANY_TASKS)
        return self.save(frame.selectExpr("cast(id AS string) AS value"), topic)

    def archive(self, topic: str) -> str:
        """The archive of a local path; what it says, or nothing."""
        settings = PipelineSettings(
            url=self.url,
            key=self.key,
            home=self.folder / "home",
            available_now=True,
            options={"topics": topic},
        )
        return self._run(ARCHIVE, settings)

    def rollups(self) -> str:
        """Rollups below a home; what it says, or nothing."""
        home = self.folder / "home"
        lake = f"delta+{home.as_uri()}/lake"
        return self._run(
            MONITORING, PipelineSettings(url=self.url, key=self.key, home=home, lake=lake)
        )

    def _run(self, pipeline: StreamPipeline, settings: PipelineSettings) -> str:
        try:
            pipeline.start(self.spark, settings).awaitTermination()
        except Exception as error:
            return str(cause_of(error))
        return ""


def _session(folder: Path) -> SparkSession:
    conf = {
        "spark.driver.memory": "512m",
        "spark.local.dir": str(folder / "local"),
        "spark.executor.extraJavaOptions": quick_options(),
        # Shuffle blocks come one by one, so that some are fetched when the others are gone.
        "spark.reducer.maxReqsInFlight": "1",
        "spark.reducer.maxBlocksInFlightPerAddress": "1",
        "spark.shuffle.io.maxRetries": "0",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
        # A task beside which another one has ended is run a second time. The only task of a stage
        # is not; for such a write Spark is to say that there is no speculation.
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.speculation.multiplier": "1.0",
        "spark.speculation.efficiency.enabled": "false",
        "spark.speculation.quantile": "0.1",
        "spark.sql.legacy.setCommandRejectsSparkCoreConfs": "false",
        **quick_java(),
    }
    spark = open_session("cluster", master=MASTER, conf=conf)
    _second_host(spark)
    return spark


def _second_host(spark: SparkSession) -> None:
    """Spark runs a task a second time on another host only, and all of its local cluster is one."""
    context: Any = spark.sparkContext
    machine, scala = context._jvm, context._jsc.sc()
    backend = scala.schedulerBackend()
    field = backend.getClass().getDeclaredField("masters")
    field.setAccessible(True)
    option = machine.scala.Option
    more = field.get(backend), None, option.apply(2), scala.conf(), option.empty()
    worker = machine.org.apache.spark.deploy.worker.Worker
    worker.startRpcEnvAndEndpoint(SECOND_HOST, 0, 0, 1, EXECUTOR_MIB, *more)
    eventually(
        "both executors are registered", lambda: scala.getExecutorMemoryStatus().size() > EXECUTORS
    )


def outcomes(cluster: Cluster) -> Iterator[str]:
    """What each of PARTS said."""
    yield cluster.speculation("speculated")
    cluster.spark.conf.set("spark.speculation", "false")
    yield cluster.fetch_failure("same", reversed_again=False)
    yield cluster.fetch_failure("reversed", reversed_again=True)
    yield cluster.many_tasks("many")
    yield cluster.archive("many")
    yield cluster.rollups()


def main(url: str, key: str, folder: str) -> None:
    """Run everything once."""
    cluster, said = Cluster(url, key, Path(folder)), {}
    for part, outcome in zip(PARTS, outcomes(cluster), strict=True):
        said[part] = outcome
        sys.stdout.write(f"done: {part}\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps(said) + "\n")
    app = cluster.spark.sparkContext.applicationId
    cluster.spark.stop()
    # Spark puts the folders of executors below its own, wherever the rest is.
    shutil.rmtree(lean_spark_home(Path(pyspark.__path__[0])) / "work" / app, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:4])

"""A driver with executors of their own that makes rollups on HDFS while its tasks fail.

usage: python -m tests.spark.hdfs.rollup_job LAKE FOLDER      prints what happened as JSON

The driver may get 1 MB of results per job, so rows among them fail it.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final

import psutil
import pyarrow as pa
import pyspark
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from tests.spark.java_classes import quick_java, quick_options

from opentalos.adapters.java_home import lean_spark_home
from opentalos.pipelines.lake.delta.files import DeltaFileWriter
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.sink import table_frame
from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.monitoring.pipeline import MonitoringWriter
from opentalos.pipelines.monitoring.rollup_tables import METRICS
from opentalos.pipelines.monitoring.rollups import LAYOUT, rollup_rows
from opentalos.pipelines.olap.delta_store import DeltaStore
from opentalos.pipelines.olap.table_set import TableSet
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.session import open_session

MASTER: Final = "local-cluster[2,1,1024]"
HOUR: Final = 1_764_000_000_000 // HOUR_MS * HOUR_MS
PARTITIONS: Final = 200
STEP_MS: Final = 60_000
STEPS: Final = HOUR_MS // STEP_MS
BATCHES: Final = 3  # each has every third step; the second and third one fail at first
RESULTS_MAX: Final = "1m"  # ``rows_to_driver`` shows that the rollups have more
_JVM: Final = "java"


class FailingWriter(DeltaFileWriter):
    """Each task writes its files, and then fails in its first attempt."""

    def write(self, batches: Iterable[pa.RecordBatch], file_bytes_max: int = 1 << 28) -> Any:
        yield from super().write(batches, file_bytes_max)
        context = TaskContext.get()
        assert context is not None
        if not context.attemptNumber():
            raise OSError("the first attempt fails after its files were written")


class KillingWriter(DeltaFileWriter):
    """The first task that has written a file kills its executor, once."""

    def write(self, batches: Iterable[pa.RecordBatch], file_bytes_max: int = 1 << 28) -> Any:
        files = list(super().write(batches, file_bytes_max))
        if files and _first(Path(self.options["_killed"])):
            parents = psutil.Process().parents()
            executor = next(parent for parent in parents if parent.name() == _JVM)
            os.kill(executor.pid, SIGKILL)
        yield from files


def _first(marker: Path) -> bool:
    """Whether this process makes the marker."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


WRITERS: Final = (DeltaFileWriter, FailingWriter, KillingWriter)


class FailingStore(DeltaStore):
    """A store whose tasks fail, by turns."""

    failing: type[DeltaFileWriter] = DeltaFileWriter
    marker = ""

    def writer(self, tables: TableSet) -> DeltaFileWriter:
        """See FileStore."""
        good = super().writer(tables)
        options = {"_killed": self.marker} if self.failing is KillingWriter else {}
        return self.failing(good.layout, good.root, {**good.options, **options})

    def publish(self, *given: Any, **more: Any) -> None:
        """See FileStore; the driver reads footers as ever."""
        failing, self.failing = self.failing, DeltaFileWriter
        try:
            super().publish(*given, **more)
        finally:
            self.failing = failing


def messages(spark: SparkSession, batch: int) -> DataFrame:
    """Measurements of every partition in each step of the batch."""
    steps = spark.range(batch, STEPS, BATCHES).selectExpr("id AS step")
    parts = spark.range(0, PARTITIONS, 1, 4).selectExpr("id AS part")
    value = (
        f"to_json(named_struct('v', 1, 'at_ms', {HOUR} + (step + 1) * {STEP_MS}, 'step_ms', "
        f"{STEP_MS}, 'service', 'server', 'topic', concat('topic-', part div 4), 'partition', "
        "cast(part AS int), 'sums', map('put_bytes', cast(part + 1 AS double)), "
        "'sketches', map('put_ms', map('7', step + 1))))"
    )
    at = f"timestamp_millis({HOUR} + {HOUR_MS}) AS append_time"
    offset = f"step * {PARTITIONS} + part AS offset"
    return parts.crossJoin(steps).selectExpr(
        "0 AS partition", offset, f"cast({value} AS binary) AS value", at
    )


def session(folder: Path) -> SparkSession:
    conf = {
        "spark.driver.memory": "512m",
        "spark.driver.maxResultSize": RESULTS_MAX,
        "spark.local.dir": str(folder / "local"),
        "spark.executor.extraJavaOptions": quick_options(),
        "spark.sql.shuffle.partitions": "4",
        **quick_java(),
    }
    return open_session("rollups", master=MASTER, conf=conf)


def left_over(store: DeltaStore) -> Iterator[str]:
    """Files below the table that are not part of it."""
    from pyarrow.fs import FileSelector

    writer = DeltaStore.writer(store, METRICS)
    table = store._create(writer.layout)
    ours = set(table.parts().column("path").to_pylist())
    for item in writer.file_system().get_file_info(FileSelector("", recursive=True)):
        if item.path.endswith(".parquet") and "_delta_log" not in item.path:
            if item.path not in ours:
                yield item.path


def rows_to_driver(spark: SparkSession, level_0: LakeTable) -> str:
    """What Spark says to rollups that pass the driver."""
    try:
        rollup_rows(table_frame(spark, level_0, LAYOUT)).toArrow()
    except Exception as error:
        return str(error)
    return ""


def main(lake: str, folder: Path) -> None:
    spark = session(folder)
    store = FailingStore(lake, (METRICS,))
    store.marker = str(folder / "killed")
    settings = PipelineSettings(url="", key="", home=folder / "home", lake=lake, olap=lake)
    level_0 = pipeline_table(settings.home, lake, LAYOUT, create=True)
    take = MonitoringWriter(settings, level_0, store)
    said: dict[str, Any] = {}
    for batch, failing in enumerate(WRITERS):
        store.failing = failing
        before = len(list(left_over(store)))
        superseded = store._create(METRICS.layout()).parts().num_rows
        take(messages(spark, batch), batch)
        said[failing.__name__] = len(list(left_over(store))) - before - superseded
        sys.stdout.write(f"done: {failing.__name__}\n")
        sys.stdout.flush()
    store.failing = DeltaFileWriter
    take(messages(spark, 1), 1)  # a batch that is repeated
    said["killed"] = (folder / "killed").exists()
    said["bad"] = take.bad
    said["rows"] = rows_to_driver(spark, level_0)
    sys.stdout.write(json.dumps(said) + "\n")
    app = spark.sparkContext.applicationId
    spark.stop()
    # Spark puts the folders of executors below its own, wherever the rest is.
    shutil.rmtree(lean_spark_home(Path(pyspark.__path__[0])) / "work" / app, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

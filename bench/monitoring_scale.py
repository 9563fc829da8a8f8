"""Memory of the driver of ``monitoring`` as busy partitions grow, on a cluster of Spark.

    python -m bench.monitoring_scale PARTITIONS FOLDER

Two executors of one core write measurements and rollups in the format of Delta, below FOLDER. Each
of two batches has every partition in half of the steps of ten minutes, so the second one merges.
The driver may have 1 GiB of heap and get 1 MiB of results per job: with rows among them it fails.
"""

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import DataFrame, SparkSession

from bench.peak_memory import java_peak_mb, peak_mb
from opentalos.adapters.java_home import PYTHON_VARIABLE, lean_spark_home
from opentalos.pipelines.lake.opening import open_existing, pipeline_table
from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.monitoring.pipeline import MonitoringWriter
from opentalos.pipelines.monitoring.rollup_tables import METRICS
from opentalos.pipelines.monitoring.rollups import LAYOUT
from opentalos.pipelines.olap.opening import open_olap
from opentalos.pipelines.olap.store import Group, Measure, Selection
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.session import open_session

MASTER: Final = "local-cluster[2,1,1024]"
HOUR: Final = 1_764_000_000_000 // HOUR_MS * HOUR_MS
STEP_MS: Final = 10_000
STEPS: Final = 60
BATCHES: Final = 2
SUMS: Final = ("put_requests", "put_bytes", "get_requests", "get_bytes", "put_messages")
RESULTS_MAX: Final = "1m"
HEAP: Final = "1g"


def messages(spark: SparkSession, partitions: int, batch: int) -> DataFrame:
    """Measurements of all partitions in every second step, as ``__metrics`` has them."""
    steps = spark.range(batch, STEPS, BATCHES).selectExpr("id AS step")
    parts = spark.range(0, partitions, 1, 8).selectExpr("id AS part")
    sums = ", ".join(f"'{name}', cast(part + {place} AS double)" for place, name in enumerate(SUMS))
    value = (
        f"to_json(named_struct('v', 1, 'at_ms', {HOUR} + (step + 1) * {STEP_MS}, 'step_ms', "
        f"{STEP_MS}, 'service', 'server', 'machine', concat('m', part % 16), 'topic', "
        f"concat('topic-', part div 4), 'partition', cast(part AS int), 'sums', map({sums}), "
        "'gauges', map('lane_depth', cast(step AS double)), "
        "'sketches', map('put_ms', map('7', step + 1, '9', 1))))"
    )
    return parts.crossJoin(steps).selectExpr(
        "0 AS partition",
        f"step * {partitions} + part AS offset",
        f"cast({value} AS binary) AS value",
        f"timestamp_millis({HOUR} + {HOUR_MS}) AS append_time",
    )


def main(partitions: int, folder: Path) -> None:
    """Measure and print."""
    conf = {
        "spark.driver.memory": HEAP,
        "spark.driver.maxResultSize": RESULTS_MAX,
        "spark.local.dir": str(folder / "local"),
        "spark.executorEnv.PYTHONPATH": ":".join(sys.path),
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.enabled": "false",
    }
    os.environ.setdefault(PYTHON_VARIABLE, sys.executable)
    spark = open_session("monitoring-scale", master=MASTER, conf=conf)
    lake = f"delta+{folder.as_uri()}/lake"
    settings = PipelineSettings(url="", key="", home=folder / "home", lake=lake)
    level_0 = pipeline_table(settings.home, lake, LAYOUT, create=True)
    store = open_olap(settings.home, lake, (METRICS,))
    take = MonitoringWriter(settings, level_0, store)
    began = time.perf_counter()
    for batch in range(BATCHES):
        take(messages(spark, partitions, batch), batch)
    took_s = time.perf_counter() - began
    events = partitions * STEPS
    chosen = Selection(table="metrics_1h", start_ms=HOUR, end_ms=HOUR + HOUR_MS)
    samples = Measure("samples", "sum", "samples")
    (found,) = store.query(Group(rows=chosen, by=(), measures=(samples,))).to_pylist()
    assert found["samples"] == events * (len(SUMS) + 1), found
    rollups = open_existing(f"{lake}/rollups/{METRICS.name}")[0].summary().rows
    java_mb = java_peak_mb(spark)
    print(
        f"monitoring: {partitions:,} partitions, {events:,} measurements, {rollups:,} rows of "
        f"rollups, {took_s:.0f} s; driver: Python {peak_mb():.0f} MB, Java {java_mb:.0f} MB with a "
        f"heap of {HEAP}, results of a job at most {RESULTS_MAX}",
        flush=True,
    )
    app = spark.sparkContext.applicationId
    spark.stop()
    # Spark puts the folders of executors below its own, wherever the rest is.
    shutil.rmtree(lean_spark_home(Path(pyspark.__path__[0])) / "work" / app, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))

"""A lake table on a real HDFS: deltalake writes and commits, Spark's Hadoop client reads."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.conftest import RunningBackends
from tests.spark.queries import finished

from opentalos.pipelines.lake.layout import TIME_TYPE, Layout, Span
from opentalos.pipelines.lake.opening import open_lake_table
from opentalos.pipelines.lake.sink import LakeSink, table_frame

pytestmark = pytest.mark.backend
START_MS = int(datetime(2026, 11, 21, 23, tzinfo=UTC).timestamp()) * 1000
LAYOUT = Layout(
    "numbers",
    pa.schema(
        [
            pa.field("at", TIME_TYPE, nullable=False),
            pa.field("number", pa.int64(), nullable=False),
        ]
    ),
    "at",
)


def test_a_stream_is_on_hdfs_once(
    spark: SparkSession, backends: RunningBackends, tmp_path: Path
) -> None:
    table = open_lake_table(f"delta+{backends.hdfs_url}/lake/{tmp_path.name}", LAYOUT)
    at = F.timestamp_millis(F.lit(START_MS) + F.col("id") * 1000).alias("at")
    rows = spark.range(0, 1000, 1, 4).select(at, F.col("id").alias("number"))
    rows.write.parquet(str(tmp_path / "in"))

    def run() -> None:
        stream = spark.readStream.schema("at timestamp, number bigint")
        writer = stream.parquet(str(tmp_path / "in")).writeStream.foreachBatch(LakeSink(table))
        checkpoint = str(tmp_path / "checkpoint")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        finished(query)

    run()
    (tmp_path / "checkpoint" / "commits" / "0").unlink()  # as if the driver died after the commit
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    run()
    found = table_frame(spark, table, LAYOUT, Span(START_MS, START_MS + 500_000))
    assert sorted(row.number for row in found.collect()) == list(range(500))
    assert all(path.startswith(backends.hdfs_url) for path in table.files())
    assert table.read().num_rows == 1000

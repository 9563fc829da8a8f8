"""The archive on a real HDFS, written by the Hadoop client that Spark brings."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.conftest import RunningBackends
from tests.spark.archived import each_once
from tests.spark.conftest import TalosServer
from tests.spark.queries import started

from opentalos.pipelines.archive.hadoop_files import HadoopFiles
from opentalos.pipelines.archive.pipeline import ARCHIVE
from opentalos.pipelines.lake.opening import open_existing
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.sdk import SimpleProducer, TalosAdmin

pytestmark = pytest.mark.backend


def archive_twice(
    spark: SparkSession, server: TalosServer, home: Path, topic: str, path: str
) -> None:
    """500 messages and a run, two times."""
    with TalosAdmin(server.config) as admin:
        admin.topics.create(topic, partitions=1)
    settings = PipelineSettings(
        url=server.url,
        key=server.key,
        home=home,
        available_now=True,
        options={"topics": topic, "path": path},
    )
    for _ in range(2):
        with SimpleProducer(server.config, topic, 0) as producer:
            producer.put([b"x"] * 500)
        started(lambda: ARCHIVE.start(spark, settings)).awaitTermination()


def test_each_message_is_on_hdfs_once(
    spark: SparkSession, server: TalosServer, backends: RunningBackends, tmp_path: Path
) -> None:
    path = f"{backends.hdfs_url}/archives/{tmp_path.name}"
    archive_twice(spark, server, tmp_path, "kept-on-hdfs", path)
    files = HadoopFiles(spark, path).glob(f"{path}/date=*/*")
    assert files
    assert all(file.endswith(".parquet") for file in files)
    rows = spark.read.parquet(*files).select("partition", "offset").collect()
    assert Counter((row.partition, row.offset) for row in rows) == each_once({0: 1_000})


def test_each_message_is_in_a_table_of_delta_on_hdfs_once(
    spark: SparkSession, server: TalosServer, backends: RunningBackends, tmp_path: Path
) -> None:
    url = f"delta+{backends.hdfs_url}/archives/{tmp_path.name}"
    archive_twice(spark, server, tmp_path, "kept-in-delta-on-hdfs", url)
    table, layout = open_existing(url)
    assert layout.partition_by == ("topic", "date")
    assert table.compact() > 0
    rows = table.read().select(["partition", "offset"]).to_pylist()
    assert Counter((row["partition"], row["offset"]) for row in rows) == each_once({0: 1_000})

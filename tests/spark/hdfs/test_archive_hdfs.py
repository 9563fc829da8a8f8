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
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.sdk import SimpleProducer, TalosAdmin

pytestmark = pytest.mark.backend
TOPIC = "kept-on-hdfs"


def test_each_message_is_on_hdfs_once(
    spark: SparkSession, server: TalosServer, backends: RunningBackends, tmp_path: Path
) -> None:
    with TalosAdmin(server.config) as admin:
        admin.topics.create(TOPIC, partitions=1)
    path = f"{backends.hdfs_url}/archives/{tmp_path.name}"
    settings = PipelineSettings(
        url=server.url,
        key=server.key,
        home=tmp_path,
        available_now=True,
        options={"topics": TOPIC, "path": path},
    )
    for _ in range(2):
        with SimpleProducer(server.config, TOPIC, 0) as producer:
            producer.put([b"x"] * 500)
        started(lambda: ARCHIVE.start(spark, settings)).awaitTermination()

    files = HadoopFiles(spark, path).glob(f"{path}/date=*/*")
    assert files
    assert all(file.endswith(".parquet") for file in files)
    rows = spark.read.parquet(*files).select("partition", "offset").collect()
    assert Counter((row.partition, row.offset) for row in rows) == each_once({0: 1_000})

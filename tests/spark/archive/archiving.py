"""Runs of the pipeline ``archive`` over topics that a test fills."""

from pathlib import Path

from pyspark.sql import SparkSession
from tests.spark.conftest import TalosServer
from tests.spark.queries import started

from opentalos.pipelines.archive.pipeline import ARCHIVE
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.sdk import Message, SimpleProducer, TalosAdmin

PARTITIONS = 2


def fill(server: TalosServer, topic: str, count: int, *, new: bool = True) -> None:
    """``count`` messages in each partition."""
    if new:
        with TalosAdmin(server.config) as admin:
            admin.topics.create(topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        with SimpleProducer(server.config, topic, partition) as producer:
            producer.put([Message(data=b"%d" % number) for number in range(count)])


def settings(server: TalosServer, home: Path, **options: str) -> PipelineSettings:
    return PipelineSettings(
        url=server.url, key=server.key, home=home, available_now=True, options=options
    )


def run(spark: SparkSession, given: PipelineSettings) -> None:
    query = started(lambda: ARCHIVE.start(spark, given))
    try:
        query.awaitTermination()
    finally:
        query.stop()

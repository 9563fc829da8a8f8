"""A bounded read has the same rows as the plain SDK reads."""

from pyspark.sql import SparkSession
from tests.spark.conftest import TalosServer

from opentalos.sdk import Client, Message, SimpleConsumer, SimpleProducer, TalosAdmin


def test_all_rows_come_as_the_sdk_reads_them(spark: SparkSession, server: TalosServer) -> None:
    with Client(server.config) as client:
        TalosAdmin(client).topics.create("batch-all", partitions=3)
        for partition in range(3):
            messages = [Message(b"%d" % n, partition_key=f"k{n}") for n in range(1_000)]
            SimpleProducer(client, "batch-all").put(messages, partition=partition)
        read = [
            record
            for partition in range(3)
            for record in SimpleConsumer(client, "batch-all").fetch(partition, 0)
        ]
    frame = (
        spark.read.format("talos").options(url=server.url, key=server.key, topic="batch-all").load()
    )
    rows = sorted(
        tuple(row) for row in frame.select("partition", "offset", "key", "value").collect()
    )
    assert rows == [(r.partition, r.offset, r.partition_key, r.data) for r in read]
    assert len(rows) == 3_000

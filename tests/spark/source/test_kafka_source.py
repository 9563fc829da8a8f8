"""Spark's own Kafka source and sink, at the port for clients of Kafka."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.server_process import ROOT_KEY
from tests.spark.conftest import TalosServer
from tests.spark.queries import finished
from tests.spark.source.conftest import create, put, read_all

from opentalos.backends.jars import SPARK_KAFKA, need_jars
from opentalos.sdk import Client, Message, Record, TalosProducer

KEYS = 50
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def kafka(spark: SparkSession, server: TalosServer) -> dict[str, str]:
    """Where the port is and who calls; Spark knows the format from then on."""
    for jar in sorted(need_jars(SPARK_KAFKA).glob("*.jar")):
        spark.sql(f"ADD JAR '{jar}'")
    login = f'{MODULE} required username="{ROOT_KEY.key_id}" password="{ROOT_KEY.secret}";'
    return {
        "kafka.bootstrap.servers": json.loads((server.data / "server.json").read_text())["kafka"],
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": login,
    }


def write_keyed(server: TalosServer, topic: str, count: int) -> None:
    """Messages of the SDK, with keys."""
    messages = [
        Message(b"value %d" % number, partition_key=f"key {number % KEYS}")
        for number in range(count)
    ]
    with Client(server.config) as client, TalosProducer(client, topic) as producer:
        producer.put_many(messages)


def loaded(spark: SparkSession, kafka: dict[str, str], topic: str) -> DataFrame:
    options = {**kafka, "subscribe": topic, "startingOffsets": "earliest"}
    return spark.read.format("kafka").options(**options).load()


def test_sparks_source_reads_what_the_sdk_wrote_and_its_sink_writes_it_back(
    spark: SparkSession, server: TalosServer, kafka: dict[str, str]
) -> None:
    for name in ("from-sdk", "from-spark"):
        create(server, name, 3)
    write_keyed(server, "from-sdk", 200)
    records = read_all(server, "from-sdk")
    assert len(records) == 200
    rows = loaded(spark, kafka, "from-sdk").orderBy("partition", "offset").collect()
    assert [
        (row["topic"], row["partition"], row["offset"], row["key"], row["value"]) for row in rows
    ] == [
        (
            "from-sdk",
            record.partition,
            record.offset,
            str(record.partition_key).encode(),
            record.data,
        )
        for record in records
    ]
    frame = loaded(spark, kafka, "from-sdk").select("key", "value")
    frame.write.format("kafka").options(**kafka).option("topic", "from-spark").save()
    written = read_all(server, "from-spark")

    def content(found: list[Record]) -> list[tuple[Any, ...]]:
        return sorted((each.partition, each.partition_key, each.data) for each in found)

    # Kafka's producer puts keys where ours does.
    assert content(written) == content(records)


def test_a_stream_of_sparks_source_continues_at_its_offsets(
    spark: SparkSession, server: TalosServer, kafka: dict[str, str], tmp_path: Path
) -> None:
    create(server, "stream-in", 2)
    create(server, "stream-out", 2)

    def run_once() -> list[bytes]:
        options = {**kafka, "subscribe": "stream-in", "startingOffsets": "earliest"}
        source = spark.readStream.format("kafka").options(**options).load()
        sink = source.selectExpr("key", "value", "'stream-out' as topic").writeStream
        query = (
            sink.format("kafka")
            .options(**kafka)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        finished(query)
        return sorted(record.data for record in read_all(server, "stream-out"))

    put(server, "stream-in", [30, 20])
    first = sorted(record.data for record in read_all(server, "stream-in"))
    assert run_once() == first
    put(server, "stream-in", [0, 10])
    both = sorted(record.data for record in read_all(server, "stream-in"))
    assert len(both) == 60
    assert run_once() == both

"""A bounded read has the same rows as the plain SDK reads."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from tests.spark.conftest import TalosServer
from tests.spark.source.conftest import create, put, read_all
from tests.waiting import eventually

from opentalos.pipelines.datasource import decode_json
from opentalos.sdk import Client, Compression, Message, Record, SimpleProducer, TalosAdmin
from opentalos.sdk.core.values import MessageBlock

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "messages"
ALL = "topic,partition,offset,key,value,type,tag,create_time,append_time,sequence_number"


def load(spark: SparkSession, server: TalosServer, **options: Any) -> DataFrame:
    return spark.read.format("talos").options(url=server.url, key=server.key, **options).load()


def offsets(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted((row[0], row[1]) for row in frame.select("partition", "offset").collect())


def expected(record: Record) -> tuple[Any, ...]:
    created = record.create_ms
    return (
        record.topic,
        record.partition,
        record.offset,
        record.partition_key,
        record.data,
        record.message_type,
        record.tag,
        None if created is None else time_of(created),
        time_of(record.append_ms),
        record.sequence_number,
    )


def time_of(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def plain(row: Row) -> tuple[Any, ...]:
    """A row with its times in UTC; collect() gives them in this machine's zone, without it."""
    return tuple(value.astimezone(UTC) if isinstance(value, datetime) else value for value in row)


def test_rows_are_those_of_the_sdk_in_all_compressions(
    spark: SparkSession, server: TalosServer
) -> None:
    create(server, "packed", 3)
    for compression in Compression:
        put(server, "packed", [1_300, 700, 1], compression)
    with Client(server.config) as client:  # a block as Kafka clients write it
        k0 = bytes.fromhex((GOLDEN / "k0.hex").read_text())
        ref = client.run(lambda inner: inner.topic("packed"))
        client.run(lambda inner: inner.put(ref, 2, MessageBlock(k0, 2)))
    records = read_all(server, "packed")
    frame = load(spark, server, topic="packed", columns=ALL)
    rows = frame.orderBy("partition", "offset").collect()
    assert [plain(row) for row in rows] == [expected(record) for record in records]
    assert len(rows) == 5 * 2_001 + 2
    assert {row["key"] for row in rows if row["partition"] == 2} >= {None, "k"}


def test_columns_are_those_that_are_asked_for(spark: SparkSession, server: TalosServer) -> None:
    create(server, "columns", 1)
    put(server, "columns", [3])
    frame = load(spark, server, topic="columns", columns="value,offset")
    assert frame.columns == ["value", "offset"]
    assert [tuple(row) for row in frame.collect()] == [(b"0", 0), (b"1", 1), (b"2", 2)]
    own = (
        spark.read.format("talos")
        .options(url=server.url, key=server.key, topic="columns")
        .schema("offset bigint, tag string")
        .load()
    )
    assert [tuple(row) for row in own.collect()] == [(0, "tag 0"), (1, "tag 1"), (2, "tag 2")]
    assert load(spark, server, topic="columns").count() == 3


def next_millisecond() -> datetime:
    """The time, once the clock shows another millisecond: the log keeps no finer times."""
    later = datetime.now(UTC) + timedelta(milliseconds=1)
    eventually("another millisecond begins", lambda: datetime.now(UTC) > later)
    return datetime.now(UTC)


def test_places_bound_what_is_read(spark: SparkSession, server: TalosServer) -> None:
    create(server, "bounded", 2)
    put(server, "bounded", [100, 100])
    between = next_millisecond()
    next_millisecond()
    put(server, "bounded", [50, 0])
    named = load(
        spark,
        server,
        topic="bounded",
        startingPosition='{"bounded": {"0": 90}}',
        endingPosition='{"bounded": {"0": 95, "1": 2}}',
    )
    assert offsets(named) == [(0, n) for n in range(90, 95)] + [(1, 0), (1, 1)]
    since = load(spark, server, topic="bounded", startingPosition=between.isoformat())
    assert offsets(since) == [(0, n) for n in range(100, 150)]
    until = load(spark, server, topic="bounded", endingPosition=between.isoformat())
    assert until.count() == 200
    assert load(spark, server, topic="bounded", startingPosition="latest").collect() == []


@pytest.mark.parametrize("tasks", [1, 3, 8])
def test_large_partitions_are_cut_and_small_ones_share_a_task(
    spark: SparkSession, server: TalosServer, tasks: int
) -> None:
    topic = f"tasks-{tasks}"
    create(server, topic, 5)
    put(server, topic, [41_000, 10, 9_000, 0, 5])
    frame = load(spark, server, topic=topic, tasks=tasks, columns="partition,offset")
    assert frame.rdd.getNumPartitions() == min(tasks, 5)
    assert offsets(frame) == [
        (partition, n)
        for partition, count in enumerate([41_000, 10, 9_000, 0, 5])
        for n in range(count)
    ]


def test_several_topics_are_read_at_once(spark: SparkSession, server: TalosServer) -> None:
    for topic in ("many-a", "many-b", "many-c"):
        create(server, topic, 1)
        put(server, topic, [2])
    named = load(spark, server, topics="many-a, many-c")
    assert {row["topic"] for row in named.collect()} == {"many-a", "many-c"}
    assert load(spark, server, topicPattern="many-[ab]").count() == 4
    assert load(spark, server, topicPattern="no such .*").count() == 0


def test_limit_reads_no_more_than_it_needs(spark: SparkSession, server: TalosServer) -> None:
    create(server, "first-few", 1)
    put(server, "first-few", [60_000])
    found = load(spark, server, topic="first-few").limit(3).collect()
    assert [row["offset"] for row in found] == [0, 1, 2]


def test_a_group_says_where_to_begin(spark: SparkSession, server: TalosServer) -> None:
    create(server, "resumed", 1)
    put(server, "resumed", [10])
    from_group = {"topic": "resumed", "startingPosition": "group", "group": "nobody"}
    assert load(spark, server, **from_group).count() == 10
    with TalosAdmin(server.config) as admin:
        assert admin.groups.list("resumed") == ()  # a bounded read commits nothing


def test_a_path_is_the_topic_and_only_some_partitions_are_read(
    spark: SparkSession, server: TalosServer
) -> None:
    create(server, "by-path", 3)
    put(server, "by-path", [3, 2, 1])
    reader = spark.read.format("talos").options(url=server.url, key=server.key)
    assert offsets(reader.load("by-path")) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]
    some = reader.option("partitions", "2, 0").option("startingPosition", '{"by-path": {"0": 2}}')
    assert offsets(some.load("by-path")) == [(0, 2), (2, 0)]
    with pytest.raises(Exception, match="no topic of this read has partition 3"):
        reader.option("partitions", "0,3").load("by-path").collect()


def test_json_is_decoded_by_its_schema_fingerprint(
    spark: SparkSession, server: TalosServer
) -> None:
    create(server, "by-schema", 1)
    messages = [
        Message(b'{"user": "a", "n": 1}', schema_fingerprint="v1"),
        Message(b'{"user": "b", "tags": ["x"]}', schema_fingerprint="v2"),
        Message(b"no JSON", schema_fingerprint="other"),
        Message(b'{"n": "x"}', schema_fingerprint="wrong"),
    ]
    with Client(server.config) as client, SimpleProducer(client, "by-schema") as producer:
        producer.put(messages, partition=0)
    frame = load(spark, server, topic="by-schema", columns="offset,value,schema_fingerprint")
    schemas = {"v1": "user string, n int", "v2": "user string, tags array<string>"}
    found = decode_json(frame, schemas)
    rows = found["v1"].select("offset", "decoded.*").collect()
    assert [tuple(row) for row in rows] == [(0, "a", 1)]
    assert [row[0] for row in found["v2"].select("decoded.tags").collect()] == [["x"]]
    with pytest.raises(Exception, match="MALFORMED_RECORD"):
        decode_json(frame, {"wrong": "n int"})["wrong"].collect()

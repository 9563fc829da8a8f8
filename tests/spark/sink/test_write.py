"""``write`` and ``writeStream`` of a real Spark session to a real server, read by the plain SDK."""

import gc
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.spark.conftest import TalosServer
from tests.spark.kills.copying import read_all
from tests.waiting import eventually

from opentalos.model.settings.partitioning import Partitioning
from opentalos.sdk import Permission, Record, SimpleConsumer, TalosAdmin
from opentalos.sdk.rest_client import RestClient

PARTITIONS = 4


def create(server: TalosServer, *names: str) -> None:
    with TalosAdmin(server.config) as admin:
        for name in names:
            admin.topics.create(name, partitions=PARTITIONS)


def save(frame: DataFrame, server: TalosServer, **options: str) -> None:
    write = frame.write.format("talos").options(url=server.url, key=server.key, **options)
    write.mode("append").save()


def held(server: TalosServer, topic: str) -> list[str]:
    found = [read_all(server.config, topic, partition) for partition in range(PARTITIONS)]
    return [data.decode() for partition in found for data in partition]


def rows_of(spark: SparkSession, count: int, tasks: int = 2) -> DataFrame:
    return spark.range(0, count, 1, tasks).selectExpr(
        "concat('value-', id) AS value", "concat('key-', id * 7919) AS key"
    )


def first_record(server: TalosServer, topic: str, partition: int) -> Record:
    with SimpleConsumer(server.config, topic) as consumer:
        return consumer.fetch(partition, 0)[0]


def frozen_in_workers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch([pa.array([gc.get_freeze_count()] * len(batch))], ["frozen"])


def test_a_worker_that_wrote_collects_no_garbage_among_its_imports(
    spark: SparkSession, server: TalosServer
) -> None:
    create(server, "frozen")
    save(rows_of(spark, 10), server, topic="frozen")
    found = spark.range(0, 10, 1, 2).mapInArrow(frozen_in_workers, "frozen long").collect()
    assert max(row.frozen for row in found) > 10_000


def test_every_row_is_stored_in_the_partition_of_its_key(
    spark: SparkSession, server: TalosServer
) -> None:
    create(server, "keyed")
    save(rows_of(spark, 30_000), server, topic="keyed")
    assert sorted(held(server, "keyed")) == sorted(f"value-{n}" for n in range(30_000))
    for partition in range(PARTITIONS):
        numbers = [
            int(data.decode().removeprefix("value-"))
            for data in read_all(server.config, "keyed", partition)
        ]
        assert all(
            Partitioning.MURMUR2.partition_of(f"key-{number * 7919}", PARTITIONS) == partition
            for number in numbers
        )
        for task in (range(15_000), range(15_000, 30_000)):  # in the order of its rows
            own = [number for number in numbers if number in task]
            assert own == sorted(own)


def test_all_columns_are_stored(spark: SparkSession, server: TalosServer) -> None:
    create(server, "columns-a", "columns-b")
    frame = spark.sql(
        "SELECT binary('v') AS value, 'k' AS key, 5 AS type, 'red' AS tag, 3 AS partition, "
        "timestamp'2026-01-02 03:04:05.678 UTC' AS create_time, 's1' AS sequence_number, "
        "'f1' AS schema_fingerprint, explode(array('columns-a', 'columns-b')) AS topic"
    )
    save(frame, server)
    for topic in ("columns-a", "columns-b"):
        found = first_record(server, topic, 3)
        assert (found.data, found.partition_key, found.message_type) == (b"v", "k", 5)
        assert (found.tag, found.sequence_number, found.schema_fingerprint) == ("red", "s1", "f1")
        created = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
        assert found.create_ms == int(created.timestamp() * 1000)


def test_a_topic_is_copied_as_it_was_read(spark: SparkSession, server: TalosServer) -> None:
    create(server, "copy-from", "copy-to")
    save(rows_of(spark, 1_000), server, topic="copy-from")
    reader = spark.read.format("talos").options(url=server.url, key=server.key)
    write = reader.load("copy-from").write.format("talos").mode("append")
    write = write.options(url=server.url, key=server.key)
    with pytest.raises(PySparkException, match="offset is set by the log"):
        write.save("copy-to")
    write.option("metadata", "ignore").save("copy-to")
    for partition in range(PARTITIONS):
        copied = read_all(server.config, "copy-to", partition)
        assert sorted(copied) == sorted(read_all(server.config, "copy-from", partition))


@pytest.mark.parametrize(
    ("select", "options", "says"),
    [
        ("value, key", {"topic": "nowhere"}, "topic nowhere does not exist"),
        ("value, key", {}, "neither was given"),
        ("value, key", {"topic": "bad", "acks": "all"}, "has no option 'acks'"),
        ("key", {"topic": "bad"}, "needs the column value"),
        ("value, 1L AS offset", {"topic": "bad"}, "offset is set by the log"),
        ("value, 9 AS partition", {"topic": "bad"}, "a row has partition 9; bad has 0 to 3"),
        ("CASE WHEN key > 'key-2' THEN value END AS value", {"topic": "bad"}, "have no value"),
        ("value", {"topic": "bad", "key": "AKNOBODY:x"}, "unknown key or wrong signature"),
    ],
)
def test_what_cannot_be_written_is_said(
    spark: SparkSession, server: TalosServer, select: str, options: dict[str, str], says: str
) -> None:
    with TalosAdmin(server.config) as admin:
        if "bad" not in {item.name for item in admin.topics.list()}:
            admin.topics.create("bad", partitions=PARTITIONS)
    frame = rows_of(spark, 10, 1).selectExpr(*select.split(", "))
    given: Mapping[str, Any] = {"url": server.url, "key": server.key, **options}
    with pytest.raises(PySparkException, match=says):
        frame.write.format("talos").options(**given).mode("append").save()
    assert held(server, "bad") == []


def test_overwriting_a_topic_is_refused(spark: SparkSession, server: TalosServer) -> None:
    create(server, "appended")
    write = rows_of(spark, 3).write.format("talos").options(url=server.url, key=server.key)
    with pytest.raises(PySparkException, match="a topic cannot be overwritten"):
        write.option("topic", "appended").mode("overwrite").save()


def test_a_write_id_makes_a_write_repeatable_and_a_random_plan_is_refused(
    spark: SparkSession, server: TalosServer
) -> None:
    create(server, "named")
    for _ in range(2):
        save(rows_of(spark, 1_000), server, topic="named", writeId="day-1")
    assert sorted(held(server, "named")) == sorted(f"value-{n}" for n in range(1_000))
    save(by_chance(spark), server, topic="named", writeId="day-2")
    before = held(server, "named")
    with pytest.raises(PySparkException, match="an earlier attempt of this task"):
        save(by_chance(spark), server, topic="named", writeId="day-2")
    assert held(server, "named") == before


def by_chance(spark: SparkSession) -> DataFrame:
    """Other values in each frame: ``rand`` draws its seed when it is analysed."""
    return spark.range(0, 1_000, 1, 2).selectExpr("cast(rand() AS string) AS value")


def counted(spark: SparkSession, rows: int) -> DataFrame:
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load()
    return frame.selectExpr("cast(value AS string) AS value")


def wait_for_more(server: TalosServer, topic: str, rows: int, query: StreamingQuery) -> None:
    """Until the query has stored more rows."""

    def more() -> bool:
        assert query.isActive, query.exception()
        return len(held(server, topic)) > rows

    eventually(f"{topic} has more than {rows} rows", more, state=lambda: query.lastProgress)


def test_a_stream_resumes_from_its_checkpoint(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    create(server, "streamed")
    write = counted(spark, 100).writeStream.format("talos")
    write = write.options(url=server.url, key=server.key, topic="streamed")
    write = write.option("checkpointLocation", str(tmp_path))
    for _ in range(2):
        before = len(held(server, "streamed"))
        query = write.start()
        try:
            wait_for_more(server, "streamed", before + 100, query)
        finally:
            query.stop()
        assert query.exception() is None
    found = sorted(int(value) for value in held(server, "streamed"))
    assert found == list(range(len(found)))


def test_a_named_write_inside_foreach_batch_counts_with_its_batch(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    create(server, "foreach")

    def store_twice(frame: DataFrame, _: int) -> None:
        for _ in range(2):
            save(frame, server, topic="foreach", writeId="copy")

    write = counted(spark, 10).writeStream.foreachBatch(store_twice)
    query = write.option("checkpointLocation", str(tmp_path)).start()
    try:
        wait_for_more(server, "foreach", 20, query)
    finally:
        query.stop()
    found = sorted(int(value) for value in held(server, "foreach"))
    assert found == list(range(len(found)))


def test_a_principal_without_the_right_to_put_is_refused(
    spark: SparkSession, server: TalosServer
) -> None:
    create(server, "guarded")
    key = made_principal(server, "sink-reader", Permission.GET_MESSAGE | Permission.DESCRIBE_TOPIC)
    frame = rows_of(spark, 5, 1).write.format("talos").options(url=server.url, key=key)
    with pytest.raises(PySparkException, match="PermissionDenied"):
        frame.option("topic", "root/guarded").mode("append").save()
    assert held(server, "guarded") == []


def made_principal(server: TalosServer, name: str, permission: Permission) -> str:
    """The key, as KEYID:SECRET, of a new user with a grant on the topic ``guarded``."""
    rest = RestClient(server.config)
    rest("POST", "principals", {"id": name})
    made = rest("POST", f"principals/{name}/keys")
    with TalosAdmin(server.config) as admin:
        admin.permissions.grant("guarded", name, permission)
    return f"{made['key_id']}:{made['secret']}"

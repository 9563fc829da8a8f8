"""What the pipeline makes of a real table's streams is the table."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import TalosServer

from opentalos.model.errors import ConfigError, NotSupported, TableNotExist, ValidationFailed
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.sds_replay import SDS_REPLAY
from opentalos.sdk import Client, Message, SimpleConsumer, SimpleProducer, TalosAdmin
from opentalos.sdk.stream import TableFollower
from opentalos.sdk.tables import (
    DataType,
    Increment,
    KeyPart,
    Put,
    Remove,
    StreamSpec,
    StreamView,
    TableAdmin,
    TableSchema,
    TalosTable,
)

TABLE = "visits"
VIEWS = {"visits-log": StreamView.MUTATE_LOG, "visits-rows": StreamView.RECORD_IMAGE}
SCHEMA = TableSchema(
    group=(KeyPart("user"),),
    hashed=True,
    primary=(KeyPart("page"),),
    attributes={
        "user": DataType.STRING, "page": DataType.STRING, "n": DataType.INT64,
        "tags": DataType.STRING_SET,
    },
    slices=2,
    streams={topic: StreamSpec(view=view) for topic, view in VIEWS.items()},
)  # fmt: skip


def settings(server: TalosServer, home: Path, **options: str) -> PipelineSettings:
    return PipelineSettings(
        url=server.url, key=server.key, home=home, available_now=True, options=options
    )


def run(spark: SparkSession, given: PipelineSettings) -> None:
    query = SDS_REPLAY.start(spark, given)
    try:
        query.awaitTermination()
    finally:
        query.stop()


def write(table: TalosTable, number: int) -> None:
    """Some updates of all kinds; another ``number`` does something else."""
    keys = [{"user": user, "page": f"page-{n}"} for user in ("ann", "bob") for n in range(5)]
    outcomes = table.batch([Put({**key, "n": number, "tags": {"a", f"t{number}"}}) for key in keys])
    outcomes += table.batch([Increment(key, {"n": 10 + number}) for key in keys[number:]])
    outcomes += table.batch([Remove(keys[number]), Remove(keys[number + 1], ["tags"])])
    assert not [one for one in outcomes if isinstance(one, Exception)]


def settled(client: Client, topic: str) -> None:
    """Everything that was written is in the topic."""
    with TableFollower(client, TABLE, topic, complete=True) as follower:
        follower.catch_up()


def send_again(client: Client, topic: str) -> None:
    """The second half of each partition, as a publisher that does not know what arrived."""
    with SimpleConsumer(client, topic) as consumer:
        for partition, kept in consumer.offsets().items():
            if kept.next > kept.start:
                again = consumer.fetch(partition, (kept.start + kept.next) // 2)
                with SimpleProducer(client, topic, partition) as producer:
                    producer.put(
                        [Message(one.data, one.partition_key, one.sequence_number) for one in again]
                    )


def state(spark: SparkSession, home: Path) -> list[Any]:
    rows = spark.read.parquet(str(home / "lake" / "tables" / TABLE)).where("NOT _deleted")
    return ordered(
        {name: tuple(v) if isinstance(v, list) else v for name, v in row.asDict().items()
         if v is not None and not name.startswith("_")}
        for row in rows.collect()
    )  # fmt: skip


def ordered(rows: Any) -> list[Any]:
    return sorted(rows, key=lambda row: (row["user"], row["page"]))


def test_the_replayed_state_is_the_table_in_both_views(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    with Client(server.config) as client:
        with TalosAdmin(client) as topics:
            for topic in VIEWS:
                topics.topics.create(topic, partitions=2)
        TableAdmin(client).create(TABLE, SCHEMA)
        table = TalosTable(client, TABLE)
        for number in range(2):
            write(table, number)
            for topic in VIEWS:
                settled(client, topic)
                send_again(client, topic)
                home = tmp_path / topic
                run(spark, settings(server, home, table=TABLE, topic=topic))
                assert state(spark, home) == ordered(table.scan()), (number, topic)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({}, ConfigError, "needs -o sds-replay.table=NAME"),
        ({"table": "refusals", "complete": "maybe"}, ConfigError, "yes or no"),
        ({"table": "refusals-nowhere"}, TableNotExist, "refusals-nowhere"),
        ({"table": "refusals"}, ConfigError, "give sds-replay.topic"),
        ({"table": "refusals", "topic": "other"}, ValidationFailed, "no stream into other"),
        ({"table": "refusals", "topic": "refusals-keys"}, NotSupported, "KEYS_ONLY"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    spark: SparkSession,
    refusals: TalosServer,
    tmp_path: Path,
    options: dict[str, str],
    error: type[Exception],
    text: str,
) -> None:
    with pytest.raises(error, match=text):
        SDS_REPLAY.start(spark, settings(refusals, tmp_path, **options))


@pytest.fixture(scope="module")
def refusals(server: TalosServer) -> TalosServer:
    """The server, with a table that has two streams."""
    streams = {
        "refusals-keys": StreamSpec(view=StreamView.KEYS_ONLY),
        "refusals-log": StreamSpec(),
    }
    schema = TableSchema(primary=(KeyPart("user"),), attributes=SCHEMA.attributes, streams=streams)
    with Client(server.config) as client, TalosAdmin(client) as topics:
        for topic in streams:
            topics.topics.create(topic, partitions=1)
        TableAdmin(client).create("refusals", schema)
    return server

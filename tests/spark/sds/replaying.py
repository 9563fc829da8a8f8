"""A table whose streams the pipeline replays, and what became of it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.spark.conftest import TalosServer
from tests.spark.queries import started

from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.tables.pipeline import SDS_REPLAY
from opentalos.sdk import Client, Message, SimpleConsumer, SimpleProducer
from opentalos.sdk.stream import TableFollower
from opentalos.sdk.tables import (
    DataType,
    Increment,
    KeyPart,
    Put,
    Remove,
    StreamSpec,
    StreamView,
    TableSchema,
    TalosTable,
)

PLAIN = TableSchema(
    group=(KeyPart("user"),),
    hashed=True,
    primary=(KeyPart("page"),),
    attributes={
        "user": DataType.STRING, "page": DataType.STRING, "n": DataType.INT64,
        "tags": DataType.STRING_SET,
    },
    shards=2,
)  # fmt: skip


def streamed(views: Mapping[str, StreamView]) -> TableSchema:
    """With these streams by topic."""
    streams = {topic: StreamSpec(view=view) for topic, view in views.items()}
    return replace(PLAIN, streams=streams)


def settings(server: TalosServer, home: Path, **options: str) -> PipelineSettings:
    return PipelineSettings(
        url=server.url, key=server.key, home=home, available_now=True, options=options
    )


def run(spark: SparkSession, given: PipelineSettings) -> None:
    query = started(lambda: SDS_REPLAY.start(spark, given))
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
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]


def settled(client: Client, table: str, topic: str) -> None:
    """Everything that was written is in the topic."""
    with TableFollower(client, table, topic) as follower:
        follower.catch_up()


def send_again(client: Client, topic: str) -> None:
    """The second half of each partition, as a publisher that does not know what arrived."""
    with SimpleConsumer(client, topic) as consumer:
        for partition, kept in consumer.offsets().items():
            if kept.next > kept.start:
                again = consumer.fetch(partition, (kept.start + kept.next) // 2)
                with SimpleProducer(client, topic, partition) as producer:
                    producer.put(
                        [
                            Message(item.data, item.partition_key, item.sequence_number)
                            for item in again
                        ]
                    )


def state(spark: SparkSession, home: Path, table: str) -> list[Any]:
    rows = spark.read.parquet(str(home / "lake" / "tables" / table)).where("NOT _deleted")
    return ordered(
        {name: tuple(v) if isinstance(v, list) else v for name, v in row.asDict().items()
         if v is not None and not name.startswith("_")}
        for row in rows.collect()
    )  # fmt: skip


def ordered(rows: Any) -> list[Any]:
    return sorted(rows, key=lambda row: (row["user"], row["page"]))

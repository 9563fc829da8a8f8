"""What the pipeline makes of a real table's streams is the table."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import TalosServer
from tests.spark.sds.replaying import (
    PLAIN,
    ordered,
    run,
    send_again,
    settings,
    settled,
    state,
    streamed,
    write,
)

from opentalos.model.errors import ConfigError, NotSupported, TableNotExist, ValidationFailed
from opentalos.pipelines.tables.pipeline import SDS_REPLAY
from opentalos.sdk import Client, TalosAdmin
from opentalos.sdk.tables import (
    KeyPart,
    StreamSpec,
    StreamView,
    TableAdmin,
    TableSchema,
    TalosTable,
)

TABLE = "visits"
VIEWS = {"visits-log": StreamView.MUTATE_LOG, "visits-rows": StreamView.RECORD_IMAGE}


def test_the_replayed_state_is_the_table_in_both_views(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    with Client(server.config) as client:
        with TalosAdmin(client) as topics:
            for topic in VIEWS:
                topics.topics.create(topic, partitions=2)
        TableAdmin(client).create(TABLE, streamed(VIEWS))
        table = TalosTable(client, TABLE)
        for number in range(2):
            write(table, number)
            for topic in VIEWS:
                settled(client, TABLE, topic)
                send_again(client, topic)
                home = tmp_path / topic
                run(spark, settings(server, home, table=TABLE, topic=topic))
                assert state(spark, home, TABLE) == ordered(table.scan()), (number, topic)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({}, ConfigError, "give -o sds-replay.table=NAME"),
        ({"table": "refusals", "complete": "maybe"}, ConfigError, "yes or no"),
        (
            {"table": "refusals", "topic": "refusals-log", "bootstrap": "yes"},
            ConfigError,
            "none or scan",
        ),
        ({"table": "refusals", "misfits": "no"}, ConfigError, "stop or count"),
        (
            {
                "table": "refusals",
                "topic": "refusals-log",
                "bootstrap": "scan",
                "starting-position": "latest",
            },
            ConfigError,
            "exclude each other",
        ),
        ({"table": "refusals-nowhere"}, TableNotExist, "refusals-nowhere"),
        ({"table": "refusals"}, ConfigError, "choose one with sds-replay.topic"),
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
    schema = TableSchema(primary=(KeyPart("user"),), attributes=PLAIN.attributes, streams=streams)
    with Client(server.config) as client, TalosAdmin(client) as topics:
        for topic in streams:
            topics.topics.create(topic, partitions=1)
        TableAdmin(client).create("refusals", schema)
    return server

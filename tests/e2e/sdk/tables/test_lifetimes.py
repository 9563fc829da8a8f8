"""A table, its stream and its topic change while followed: all continues, or is reported."""

from dataclasses import replace

import pytest

from opentalos.model import errors
from opentalos.sdk import Client, TalosAdmin
from opentalos.sdk.stream import ChangeMissing, TableFollower
from opentalos.sdk.tables import (
    DataType,
    KeyPart,
    StreamSpec,
    TableAdmin,
    TableSchema,
    TalosTable,
)

PLAIN = TableSchema(
    primary=(KeyPart("id"),), attributes={"id": DataType.STRING, "n": DataType.INT64}
)


def made(client: Client, name: str, partitions: int = 2) -> tuple[TalosTable, TableSchema]:
    topic = f"{name}-changes"
    with TalosAdmin(client) as topics:
        topics.topics.create(topic, partitions=partitions)
    schema = replace(PLAIN, streams={topic: StreamSpec()})
    TableAdmin(client).create(name, schema)
    return TalosTable(client, name), schema


def follower_of(client: Client, table: TalosTable) -> TableFollower:
    return TableFollower(client, table.name, f"{table.name}-changes")


def test_a_recreated_table_is_not_the_one_that_was_followed(client: Client) -> None:
    table, schema = made(client, "again")
    table.put({"id": "a", "n": 1})
    with follower_of(client, table) as follower:
        follower.catch_up()
        admin = TableAdmin(client)
        admin.drop(table.name)
        with pytest.raises(errors.TableNotExist):
            follower.catch_up()
        admin.create(table.name, schema)
        table.put({"id": "b", "n": 2})
        with pytest.raises(errors.TableNotExist, match="dropped and recreated"):
            follower.catch_up()
    with follower_of(client, table) as fresh:
        fresh.catch_up()
        assert list(fresh.replica.rows()) == [{"id": "b", "n": 2}]


def test_a_stream_that_was_off_in_between_is_reported_though_no_record_shows_it(
    client: Client,
) -> None:
    table, schema = made(client, "paused")
    table.put({"id": "a", "n": 1})
    with follower_of(client, table) as follower:
        follower.catch_up()
        admin = TableAdmin(client)
        admin.alter(table.name, PLAIN)
        with pytest.raises(errors.ValidationFailed, match="no stream into paused-changes"):
            follower.catch_up()
        table.remove({"id": "a"})  # no message will tell of it
        admin.alter(table.name, schema)
        with pytest.raises(ChangeMissing, match="was disabled or stopped"):
            follower.catch_up()
    with follower_of(client, table) as fresh:
        fresh.catch_up()
        assert list(fresh.replica.rows()) == []


def test_a_new_column_is_followed(client: Client) -> None:
    table, schema = made(client, "widened")
    table.put({"id": "a", "n": 1})
    with follower_of(client, table) as follower:
        follower.catch_up()
        types = {**schema.attributes, "more": DataType.STRING}
        TableAdmin(client).alter(table.name, replace(schema, attributes=types))
        table.schema(refresh=True)
        table.put({"id": "a", "more": "x"})
        follower.catch_up()
        assert list(follower.replica.rows()) == [{"id": "a", "n": 1, "more": "x"}]


def test_a_topic_that_grows_is_followed_into_its_new_partitions(client: Client) -> None:
    table, _ = made(client, "spread", partitions=1)
    keys = [f"key-{number}" for number in range(30)]
    for key in keys:
        table.put({"id": key, "n": 1})
    with follower_of(client, table) as follower, TalosAdmin(client) as topics:
        follower.catch_up()
        topics.topics.change("spread-changes", partitions=3)
        for _ in range(3):
            for key in keys:
                table.increment({"id": key}, {"n": 1})
        follower.catch_up()
        assert follower.positions.keys() == {0, 1, 2}
        rows = sorted(follower.replica.rows(), key=lambda row: str(row["id"]))
        assert rows == sorted(table.scan(), key=lambda row: str(row["id"]))
        assert {row["n"] for row in rows} == {4}


def test_a_deleted_topic_is_reported(client: Client) -> None:
    table, _ = made(client, "cut")
    table.put({"id": "a", "n": 1})
    with follower_of(client, table) as follower, TalosAdmin(client) as topics:
        follower.catch_up()
        topics.topics.delete("cut-changes")
        with pytest.raises(errors.RequestError, match="cut-changes"):
            follower.catch_up()

"""The table client with a real server: plain values in and out, conditions, pages, batches."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from opentalos.model import errors
from opentalos.sdk import Client, ClientConfig
from opentalos.sdk.aio import tables as aio
from opentalos.sdk.tables import (
    DataType,
    Datum,
    Get,
    Increment,
    IndexMode,
    KeyPart,
    LocalIndex,
    Put,
    Remove,
    RowExists,
    TableAdmin,
    TableSchema,
    TableSpec,
    TableState,
    TalosTable,
    Where,
)

TYPES = {
    "user": DataType.STRING,
    "id": DataType.INT64,
    "n": DataType.INT32,
    "name": DataType.STRING,
    "ratio": DataType.DOUBLE,
    "tags": DataType.STRING_SET,
    "raw": DataType.BINARY,
    "on": DataType.BOOL,
    "tiny": DataType.INT8,
}
SCHEMA = TableSchema(
    group=(KeyPart("user"),), hashed=True, primary=(KeyPart("id"),), attributes=TYPES, shards=4
)
FLAT = TableSchema(primary=(KeyPart("id"),), attributes=TYPES)


def make(client: Client, admin: TableAdmin, name: str, schema: TableSchema = SCHEMA) -> TalosTable:
    admin.create(name, schema)
    return TalosTable(client, name)


def test_a_record_comes_back_as_it_was_put(client: Client, admin: TableAdmin) -> None:
    table = make(client, admin, "values")
    record: dict[str, Any] = {
        "user": "ann", "id": 1 << 40, "n": -5, "name": "é", "ratio": 0.1, "tags": ("a", "b"),
        "raw": b"\x00\xff", "on": False, "tiny": -128,
    }  # fmt: skip
    key = {"user": "ann", "id": 1 << 40}
    assert table.put({**record, "tags": {"b", "a"}})
    assert table.get(key) == record
    assert table.get(key, ["n", "tags"]) == {"n": -5, "tags": ("a", "b")}
    assert table.put({**key, "name": None})
    assert table.get(key) == {n: v for n, v in record.items() if n != "name"}
    assert table.remove(key, ["raw", "tags"])
    assert (table.get(key) or {}).keys() == record.keys() - {"name", "raw", "tags"}
    assert table.remove(key)
    assert table.get(key) is None


def test_conditions_decide(client: Client, admin: TableAdmin) -> None:
    table = make(client, admin, "conditions")
    key = {"user": "bob", "id": 1}
    assert not table.put({**key, "n": 1}, RowExists())
    assert table.put({**key, "n": 1}, RowExists(False))
    assert not table.put({**key, "n": 2}, RowExists(False))
    assert not table.put({**key, "n": 2}, Where("n", ">", 1))
    assert table.put({**key, "n": 2}, Where("n", "<=", 1))
    assert not table.remove(key, condition=Where("n", "!=", 2))
    assert table.get(key) == {**key, "n": 2}
    assert table.remove(key, condition=Where("n", "==", 2))
    assert table.get(key) is None


def test_increments_add_up_and_do_not_overflow(client: Client, admin: TableAdmin) -> None:
    table = make(client, admin, "increments")
    key = {"user": "eve", "id": 1}
    assert table.increment(key, {"n": 5, "tiny": 100}) == {"n": 5, "tiny": 100}
    assert table.increment(key, {"n": -7}) == {"n": -2}
    with pytest.raises(errors.ValidationFailed):
        table.increment(key, {"n": 1, "tiny": 28})
    assert table.get(key) == {**key, "n": -2, "tiny": 100}


def test_a_scan_has_every_record_in_order(client: Client, admin: TableAdmin) -> None:
    table = make(client, admin, "scans", FLAT)
    for begin in range(0, 1_200, 300):
        outcomes = table.batch([Put({"id": n, "n": n % 7}) for n in range(begin, begin + 300)])
        assert outcomes == [True] * 300
    assert [row["id"] for row in table.scan()] == list(range(1_200))
    assert [row["id"] for row in table.scan({"id": 5}, {"id": 1_105})] == list(range(5, 1_105))
    back = table.scan({"id": 700}, {"id": 3}, reverse=True)
    assert [row["id"] for row in back] == list(range(700, 3, -1))
    some = table.scan(condition="n = 3 AND id < 100", columns=["id", "n"])
    assert [row["id"] for row in some] == list(range(3, 100, 7))


def test_a_scan_by_an_index_finds_what_it_asks_for(client: Client, admin: TableAdmin) -> None:
    index = LocalIndex(columns=(KeyPart("name"),), mode=IndexMode.EAGER, projections=("n",))
    schema = TableSchema(
        group=(KeyPart("user"),), hashed=True, primary=(KeyPart("id"),), attributes=TYPES,
        indexes={"by-name": index},
    )  # fmt: skip
    table = make(client, admin, "indexed", schema)
    table.batch([Put({"user": "u", "id": n, "name": f"name-{n % 3}", "n": n}) for n in range(9)])
    table.put({"user": "u", "id": 4, "name": "name-9"})
    table.remove({"user": "u", "id": 7})
    prefix = {"user": "u", "name": "name-1"}
    assert [row["id"] for row in table.scan(prefix, prefix, index="by-name")] == [1]


def test_a_batch_reports_the_outcome_of_each_item(client: Client, admin: TableAdmin) -> None:
    table = make(client, admin, "batches")
    key = {"user": "x", "id": 1}
    outcomes = table.batch(
        [
            Put({**key, "n": 1}),
            Get(key),
            Increment({"user": "x", "id": 2}, {"tiny": 100}),
            Get({"user": "x", "id": 3}),
            Remove({"user": "x", "id": 4}),
        ]
    )
    assert outcomes[0] is True
    assert outcomes[2] == {"tiny": 100}
    assert outcomes[3:] == [None, True]
    mixed = table.batch(
        [Put({**key, "n": 2}, Where("n", "==", 9)), Put({**key, "n": 3}, Where("n", "==", 1))]
    )
    assert mixed == [False, True]
    partly = table.batch([Increment({"user": "x", "id": 2}, {"tiny": 100}), Get(key)], partial=True)
    assert isinstance(partly[0], errors.ValidationFailed)
    assert partly[1] == {**key, "n": 3}


def test_a_table_has_a_life(client: Client, admin: TableAdmin) -> None:
    table = make(client, admin, "life")
    table.put({"user": "a", "id": 1})
    with pytest.raises(errors.TableExists):
        admin.create("life", SCHEMA)
    admin.disable("life")
    assert admin.state("life") is TableState.DISABLED
    with pytest.raises(errors.TableNotEnabled):
        table.get({"user": "a", "id": 1})
    admin.enable("life")
    assert table.get({"user": "a", "id": 1}) == {"user": "a", "id": 1}
    assert "life" in {info.name for info in admin.list()}
    assert admin.describe("life").schema.attributes == TYPES
    admin.drop("life")
    with pytest.raises(errors.TableNotExist):
        admin.describe("life")
    with pytest.raises(errors.TableNotExist):
        table.put({"user": "a", "id": 1})


def test_a_new_column_is_known_after_the_first_refusal(client: Client, admin: TableAdmin) -> None:
    table = make(client, admin, "grown", FLAT)
    table.put({"id": 1})
    wider = TableSchema(primary=FLAT.primary, attributes={**TYPES, "later": DataType.STRING})
    admin.alter("grown", wider)
    with pytest.raises(errors.ValidationFailed):
        table.put({"id": 1, "later": "x"})
    table.schema(refresh=True)
    assert table.put({"id": 1, "later": "x"})
    assert table.get({"id": 1}) == {"id": 1, "later": "x"}


def test_what_does_not_fit_is_refused_by_the_server_too(client: Client, admin: TableAdmin) -> None:
    table = make(client, admin, "refusals", FLAT)
    wrong = Datum(DataType.STRING, "1")
    with pytest.raises(errors.ValidationFailed):
        table.put({"id": wrong})
    with pytest.raises(errors.ValidationFailed):
        table.get({"n": Datum(DataType.INT64, 1)})  # no key
    with pytest.raises(errors.ValidationFailed):
        list(table.scan(condition="n = "))
    assert list(table.scan()) == []


def test_asyncio_does_the_same(config: ClientConfig) -> None:
    async def scenario() -> None:
        async with aio.TableAdmin(config) as admin, aio.TalosTable(config, "async") as table:
            await admin.create("async", FLAT)
            await asyncio.gather(*(table.put({"id": n, "n": 0}) for n in range(50)))
            key = {"id": 7}
            await asyncio.gather(*(table.increment(key, {"n": 1}) for _ in range(50)))
            assert await table.get(key) == {"id": 7, "n": 50}
            assert [row["id"] async for row in table.scan()] == list(range(50))
            assert (await table.schema()).attributes == TYPES

    asyncio.run(scenario())


def test_a_table_is_altered_only_as_it_was_seen(client: Client, admin: TableAdmin) -> None:
    make(client, admin, "versions", FLAT)
    seen = admin.describe("versions")
    admin.alter("versions", replace(seen, description="new"), version=seen.schema.version)
    with pytest.raises(errors.VersionConflict, match="schema version 2, not 1"):
        admin.alter("versions", replace(seen, description="late"), version=seen.schema.version)
    now = admin.describe("versions")
    assert (now.description, now.schema.version) == ("new", seen.schema.version + 1)
    admin.alter("versions", seen)


def test_a_table_over_its_quota_takes_nothing_that_grows(client: Client, admin: TableAdmin) -> None:
    admin.create("full", TableSpec(schema=FLAT, quota_bytes=400))
    table = TalosTable(client, "full")
    table.put({"id": 1, "name": "x" * 200})
    with pytest.raises(errors.QuotaExceeded, match="limit 400 bytes"):
        table.put({"id": 2, "name": "x" * 200})
    outcomes = table.batch(
        [Put({"id": 1, "name": "y" * 200}), Put({"id": 2, "name": "x" * 300}), Get({"id": 1})]
    )
    assert outcomes[0] is True
    assert isinstance(outcomes[1], errors.QuotaExceeded)
    assert outcomes[2] == {"id": 1, "name": "y" * 200}
    with pytest.raises(errors.ValidationFailed, match="quota of 100 bytes"):
        admin.alter("full", TableSpec(schema=FLAT, quota_bytes=100))
    assert table.remove({"id": 1})
    assert table.put({"id": 2, "name": "x" * 200})
    assert admin.describe("full").quota_bytes == 400

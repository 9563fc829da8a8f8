"""REST of rows: get, put, increment, remove, scan, batch."""

from typing import Any

import pytest
from tests.unit.gateway.rest.support import Rest, rest

TABLE = {
    "name": "t",
    "key": ["k"],
    "columns": {"k": "string", "n": "int32", "raw": "binary", "tags": "string_set"},
}


@pytest.fixture
async def rows(call: Rest) -> Any:
    """One operation on rows of a fresh table."""
    assert (await call("POST", "tables", TABLE)).status == 201

    async def run(operation: str, status: int = 200, /, **wanted: Any) -> Any:
        replied = await call("POST", f"tables/t/rows/{operation}", wanted)
        assert replied.status == status, replied
        return replied.document

    return run


async def test_a_row_is_put_got_and_removed(rows: Any) -> None:
    row = {"k": "a", "n": 1, "raw": "AAE=", "tags": ["x", "y"]}
    assert await rows("put", row=row) == {"applied": True}
    assert await rows("get", key={"k": "a"}) == {"row": row}
    assert await rows("get", key={"k": "a"}, columns=["n"]) == {"row": {"n": 1}}
    assert await rows("put", row={"k": "a", "n": 2}) == {"applied": True}
    assert await rows("get", key={"k": "a"}) == {"row": {**row, "n": 2}}
    assert await rows("remove", key={"k": "a"}, columns=["tags"]) == {"applied": True}
    assert "tags" not in (await rows("get", key={"k": "a"}))["row"]
    assert await rows("remove", key={"k": "a"}) == {"applied": True}
    assert await rows("get", key={"k": "a"}) == {"row": None}


async def test_conditions_say_whether_it_was_done(rows: Any) -> None:
    row, exists = {"k": "a", "n": 1}, {"exists": True}
    assert await rows("put", row=row, condition=exists) == {"applied": False}
    assert await rows("put", row=row, condition={"exists": False}) == {"applied": True}
    greater = {"column": "n", "operator": ">", "value": 1}
    assert await rows("put", row={"k": "a", "n": 9}, condition=greater) == {"applied": False}
    equal = {**greater, "operator": "="}
    assert await rows("remove", key={"k": "a"}, condition=equal) == {"applied": True}
    assert await rows("remove", key={"k": "a"}, condition=exists) == {"applied": False}


async def test_an_increment_returns_the_values_after_it(rows: Any) -> None:
    wanted = {"key": {"k": "a"}, "amounts": {"n": 2}}
    assert await rows("increment", **wanted) == {"applied": True, "values": {"n": 2}}
    assert await rows("increment", **wanted) == {"applied": True, "values": {"n": 4}}
    over = await rows("increment", 422, key={"k": "a"}, amounts={"n": 2**31 - 1})
    assert (over["title"], over["outcome"]) == ("ValidationFailed", "not done")
    assert (await rows("get", key={"k": "a"}))["row"]["n"] == 4


async def test_a_scan_continues_where_its_page_ended(rows: Any) -> None:
    await rows("batch", items=[{"put": {"row": {"k": k, "n": i}}} for i, k in enumerate("abcde")])
    seen: list[str] = []
    page: Any = {"next": {}}
    while page["next"] is not None:
        page = await rows("scan", start=page["next"], limit=2, columns=["k"])
        seen += [row["k"] for row in page["rows"]]
    assert seen == list("abcde")
    part = await rows("scan", start={"k": "b"}, stop={"k": "d"})
    assert [row["k"] for row in part["rows"]] == ["b", "c"]
    back = await rows("scan", start={"k": "d"}, reverse=True)
    assert [row["k"] for row in back["rows"]] == ["d", "c", "b", "a"]
    some = await rows("scan", filter="n > 1 AND n != 3")
    assert [row["n"] for row in some["rows"]] == [2, 4]
    assert (await rows("scan", filter="n > 1", count=True))["count"] == 3
    refused = await rows("scan", 422, filter="n >")
    assert refused["title"] == "ValidationFailed"
    assert (await rows("scan", 422, index="nothing"))["title"] == "ValidationFailed"


async def test_each_item_of_a_batch_has_its_outcome(rows: Any) -> None:
    exists = {"exists": True}
    items = [
        {"put": {"row": {"k": "a", "n": 1}}},
        {"put": {"row": {"k": "b", "n": 1}, "condition": exists}},
        {"increment": {"key": {"k": "c"}, "amounts": {"n": 2**31 - 1}}},
        {"put": {"row": {"n": 1}}},
        {"get": {"key": {"k": "nothing"}}},
        {"remove": {"key": {"k": "d"}}},
    ]
    found = (await rows("batch", items=items))["items"]
    assert found[0] == {"applied": True}
    assert found[1] == {"applied": False}
    assert found[2] == {"applied": True, "values": {"n": 2**31 - 1}}
    assert found[3]["error"]["title"] == "ValidationFailed"
    assert found[3]["error"]["outcome"] == "not done"
    assert found[4] == {"row": None}
    assert found[5] == {"applied": True}


async def test_a_batch_that_cannot_be_read_does_nothing(rows: Any) -> None:
    items = [{"put": {"row": {"k": "a"}}}, {"put": {"row": {"k": "b", "n": "one"}}}]
    refused = await rows("batch", 422, items=items)
    assert refused["detail"].startswith("items[1]: column n must be int32")
    assert await rows("get", key={"k": "a"}) == {"row": None}


@pytest.mark.parametrize(
    ("operation", "wanted", "status"),
    [("put", {"row": {}}, 400), ("put", {"row": {"n": 1}}, 422),
     ("put", {"row": {"k": "a", "x": 1}}, 422), ("put", {"row": {"k": 1}}, 422),
     ("put", {"row": {"k": "a", "n": 2**31}}, 422), ("put", {"row": {"k": None}}, 422),
     ("put", {"row": {"k": "a" * 5_000}}, 422), ("get", {"key": {"k": "a", "n": 1}}, 422),
     ("get", {"key": {"k": "a"}, "columns": ["x"]}, 422),
     ("increment", {"key": {"k": "a"}, "amounts": {"tags": ["a"]}}, 422),
     ("remove", {"key": {"k": "a"}, "columns": ["k"]}, 422),
     ("put", {"row": {"k": "a"}, "condition": {"exists": True, "column": "n"}}, 400),
     ("batch", {"items": []}, 400), ("batch", {"items": [{"put": {}, "get": {}}]}, 400)],
)  # fmt: skip
async def test_bad_input_is_refused_and_changes_nothing(
    rows: Any, operation: str, wanted: Any, status: int
) -> None:
    await rows(operation, status, **wanted)
    assert (await rows("scan"))["rows"] == []


async def test_a_table_over_its_rate_is_refused() -> None:
    from opentalos.model.settings.tables import SdsLimits

    async with rest(sds=SdsLimits(throttle_max_s=0.0)) as call:
        await call("POST", "tables", {**TABLE, "write_capacity": 1})
        statuses = set()
        for number in range(50):
            wanted = {"row": {"k": str(number)}}
            statuses.add((await call("POST", "tables/t/rows/put", wanted)).status)
        assert statuses == {200, 429}
        counted = call.world.broker.tables.rates
        assert counted.rejected > 0
        assert counted.write_units + counted.rejected == 50

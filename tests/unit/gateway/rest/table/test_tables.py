"""REST of structured tables: what is made, described and changed."""

import asyncio
from typing import Any

import pytest
from tests.unit.gateway.rest.support import Rest

PEOPLE = {
    "name": "people",
    "group": ["city"],
    "key": ["name", {"column": "born", "descending": True}],
    "columns": {"city": "string", "name": "string", "born": "int32", "n": "int64"},
    "indexes": {"by_n": {"columns": ["n"]}},
    "ttl_s": 3600,
    "description": "who",
}


async def test_a_table_is_created_described_listed_and_dropped(call: Rest) -> None:
    made = await call("POST", "tables", PEOPLE, by="alice")
    assert made.status == 201, made
    shown = made.document
    assert (shown["name"], shown["owner"], shown["state"]) == ("people", "alice", "enabled")
    assert shown["key"] == [
        {"column": "name", "descending": False},
        {"column": "born", "descending": True},
    ]
    assert shown["indexes"]["by_n"] == {
        "columns": [{"column": "n", "descending": False}], "mode": "eager", "projections": [],
    }  # fmt: skip
    for name in ("columns", "ttl_s", "description"):
        assert shown[name] == PEOPLE[name]
    assert (await call("POST", "tables", PEOPLE, by="alice")).status == 409
    for name in ("people", "alice%2Fpeople"):
        assert (await call("GET", f"tables/{name}", by="alice")).document == shown
    assert (await call("GET", "tables", by="alice")).document == {"tables": [shown]}
    assert (await call("GET", "tables")).document == {"tables": [shown]}  # an administrator
    await call.user("bob")
    assert (await call("GET", "tables", by="bob")).document == {"tables": []}
    assert (await call("DELETE", "tables/people", by="alice")).status == 204
    assert (await call("GET", "tables/people", by="alice")).status == 404
    assert (await call("GET", "tables", by="alice")).document == {"tables": []}


async def test_the_number_of_shards_has_its_former_name_beside_it(call: Rest) -> None:
    hashed = {**PEOPLE, "hashed": True}
    for number, field in enumerate(("shards", "slices")):
        made = await call("POST", "tables", {**hashed, "name": f"t{number}", field: 4}, by="alice")
        assert made.status == 201, made
        assert made.document["shards"] == made.document["slices"] == 4


async def test_an_unknown_table_and_one_of_others_answer_alike(call: Rest) -> None:
    await call("POST", "tables", PEOPLE, by="alice")
    await call.user("bob")
    answers = []
    for name in ("alice%2Fpeople", "alice%2Fnothing"):
        replied = await call("GET", f"tables/{name}", by="bob")
        replied.document.pop("instance")
        detail = replied.document["detail"].replace("nothing", "people")
        answers.append((replied.status, {**replied.document, "detail": detail}))
    assert answers[0] == answers[1]
    assert answers[0][0] == 404


async def test_rights_are_granted_and_taken_back(call: Rest) -> None:
    await call("POST", "tables", PEOPLE, by="alice")
    await call.user("bob")
    grant = {"apps": {"bob": ["app-read"]}, "teams": {}}
    granted = await call("PATCH", "tables/people", grant, by="alice")
    assert granted.document["apps"] == {"bob": ["app-read"]}
    key = {"key": {"city": "r", "name": "a", "born": 1}}
    assert (await call("POST", "tables/alice%2Fpeople/rows/get", key, by="bob")).status == 200
    put = {"row": key["key"]}
    assert (await call("POST", "tables/alice%2Fpeople/rows/put", put, by="bob")).status == 403
    await call("PATCH", "tables/people", {"apps": {}}, by="alice")
    assert (await call("GET", "tables/alice%2Fpeople", by="bob")).status == 404


async def test_a_change_adds_and_removes(call: Rest) -> None:
    await call("POST", "tables", PEOPLE, by="alice")
    change: dict[str, Any] = {
        "columns": {"extra": "bool"}, "indexes": {"by_n": None}, "ttl_s": None,
        "when_full": "gap",
    }  # fmt: skip
    changed = (await call("PATCH", "tables/people", change, by="alice")).document
    assert changed["columns"] == {**PEOPLE["columns"], "extra": "bool"}  # type: ignore[dict-item]
    assert (changed["indexes"], changed["ttl_s"], changed["when_full"]) == ({}, None, "gap")
    assert changed["description"] == "who"
    without = await call("PATCH", "tables/people", {"columns": {"n": None}}, by="alice")
    assert "n" not in without.document["columns"]
    refused = await call("PATCH", "tables/people", {"columns": {"name": None}}, by="alice")
    assert (refused.status, refused.document["title"]) == (422, "ValidationFailed")


async def test_a_disabled_table_is_not_read_or_written(call: Rest) -> None:
    await call("POST", "tables", PEOPLE)
    assert (await call("POST", "tables/people/disable")).document["state"] == "disabled"
    refused = await call("POST", "tables/people/rows/scan", {})
    assert (refused.status, refused.document["title"]) == (409, "TableNotEnabled")
    assert (await call("POST", "tables/people/enable")).document["state"] == "enabled"
    assert (await call("POST", "tables/people/rows/scan", {})).status == 200


@pytest.mark.parametrize(
    ("change", "status"),
    [({"key": []}, 400), ({"key": ["nothing"]}, 422), ({"columns": {"city": "text"}}, 400),
     ({"shards": 0}, 400), ({"shards": 4}, 422), ({"ttl_s": 0}, 400), ({"more": 1}, 400),
     ({"indexes": {"i": {"columns": ["x"]}}}, 422), ({"streams": {"no": {}}}, 404)],
)  # fmt: skip
async def test_a_table_that_cannot_be_is_refused(
    call: Rest, change: dict[str, Any], status: int
) -> None:
    refused = await call("POST", "tables", {**PEOPLE, **change})
    assert refused.status == status, refused
    assert (await call("GET", "tables")).document == {"tables": []}


async def test_a_change_is_made_only_to_the_version_that_was_seen(call: Rest) -> None:
    made = (await call("POST", "tables", PEOPLE, by="alice")).document
    version = made["schema_version"]
    change = {"description": "new", "schema_version": version}
    changed = await call("PATCH", "tables/people", change, by="alice")
    assert (changed.status, changed.document["schema_version"]) == (200, version + 1)
    for other in (version, version + 2):
        late = {"description": "late", "schema_version": other}
        refused = await call("PATCH", "tables/people", late, by="alice")
        assert (refused.status, refused.document["title"]) == (409, "VersionConflict")
        assert f"has schema version {version + 1}, not {other}" in refused.document["detail"]
    found = (await call("GET", "tables/people", by="alice")).document
    assert (found["description"], found["schema_version"]) == ("new", version + 1)


async def test_changes_at_the_same_time_undo_nothing(call: Rest) -> None:
    await call("POST", "tables", PEOPLE, by="alice")
    names = [f"c{number}" for number in range(6)]
    changes = [{"columns": {name: "int32"}} for name in names]
    answers = await asyncio.gather(
        *(call("PATCH", "tables/people", change, by="alice") for change in changes)
    )
    assert [answer.status for answer in answers] == [200] * len(names)
    columns = (await call("GET", "tables/people", by="alice")).document["columns"]
    assert set(names) <= set(columns)


async def test_a_quota_is_enforced_and_reported(call: Rest) -> None:
    made = (await call("POST", "tables", {**PEOPLE, "quota_bytes": 300}, by="alice")).document
    assert (made["quota_bytes"], made["used_bytes"]) == (300, 0)
    row = {"city": "rome", "name": "ann", "born": 1990}
    put = await call("POST", "tables/people/rows/put", {"row": row}, by="alice")
    assert put.status == 200
    used = (await call("GET", "tables/people", by="alice")).document["used_bytes"]
    assert 0 < used < 300
    assert (await call("GET", "tables", by="alice")).document["tables"][0]["used_bytes"] == used
    large = {"row": {**row, "name": "x" * 300}}
    refused = await call("POST", "tables/people/rows/put", large, by="alice")
    assert (refused.status, refused.document["title"]) == (403, "QuotaExceeded")
    assert f"limit 300 bytes, measured {used} bytes stored" in refused.document["detail"]
    low = await call("PATCH", "tables/people", {"quota_bytes": used - 1}, by="alice")
    assert (low.status, low.document["title"]) == (422, "ValidationFailed")
    none = await call("PATCH", "tables/people", {"quota_bytes": None}, by="alice")
    assert (none.document["quota_bytes"], none.document["used_bytes"]) == (None, None)
    assert (await call("POST", "tables/people/rows/put", large, by="alice")).status == 200
    for wrong in (0, -1, 1.5, "1"):
        assert (
            await call("PATCH", "tables/people", {"quota_bytes": wrong}, by="alice")
        ).status == 400

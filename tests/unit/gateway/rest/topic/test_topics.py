"""REST of topics and offsets."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import pytest
from tests.loop_steps import works_for
from tests.unit.gateway.rest.support import Rest

from opentalos.broker.values import Topic
from opentalos.model.identity import Principal

NEW = {"name": "orders", "partitions": 2, "retention_s": 7200, "attributes": {"a": "1"}}


def alice(call: Rest) -> Principal:
    found = call.world.broker.catalogs.principals.get("alice")
    assert found is not None
    return found


async def test_a_topic_is_created_described_listed_and_deleted(call: Rest) -> None:
    made = await call("POST", "topics", NEW, by="alice")
    assert made.status == 201
    evenly = {"attributes": {"a": "1", "partitioner": "murmur2"}}
    assert {name: made.document[name] for name in NEW} == NEW | evenly
    assert (made.document["owner"], made.document["durability"]) == ("alice", "synced")
    assert (await call("POST", "topics", NEW, by="alice")).status == 409
    for name in ("orders", "alice%2Forders", quote(made.document["resource"], safe="")):
        shown = await call("GET", f"topics/{name}", by="alice")
        assert (shown.status, len(shown.document["states"])) == (200, 2)
    listed = (await call("GET", "topics", by="alice")).document["topics"]
    assert listed == [made.document]
    assert (await call("DELETE", "topics/orders", by="alice")).status == 204
    assert (await call("GET", "topics/orders", by="alice")).status == 404


async def test_visible_topics_are_those_that_may_be_described(call: Rest) -> None:
    await call("POST", "topics", NEW, by="alice")
    assert (await call("GET", "topics")).document["topics"] == []
    names = [
        topic["name"] for topic in (await call("GET", "topics?scope=visible")).document["topics"]
    ]
    assert names == ["orders"]
    await call.user("bob")
    assert (await call("GET", "topics?scope=visible", by="bob")).document["topics"] == []
    assert (await call("GET", "topics?scope=all")).status == 400


async def test_a_call_works_for_its_tenant(call: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    overview, worked_for = call.world.broker.overview, list[str]()
    listed = overview.listed_topics

    async def seen(caller: Principal) -> Sequence[Topic]:
        worked_for.append(works_for())
        return await listed(caller)

    monkeypatch.setattr(overview, "listed_topics", seen)
    await call("GET", "topics?scope=visible", by="alice")
    assert worked_for == ["alice"]


async def test_a_long_list_is_read_page_by_page(call: Rest) -> None:
    for name in ("d", "a", "c", "b"):
        await call("POST", "topics", NEW | {"name": name}, by="alice")
    await call("POST", "topics", NEW | {"name": "b"})
    names, after = [], ""
    for scope in ("visible", "visible", "visible"):
        page = (await call("GET", f"topics?scope={scope}&limit=2&after={after}")).document
        names += [f"{topic['owner']}/{topic['name']}" for topic in page["topics"]]
        after = page["next"]
        # What is deleted or made meanwhile neither repeats nor hides others.
        await call("DELETE", "topics/alice%2Fa")
    assert names == ["alice/a", "alice/b", "root/b", "alice/c", "alice/d"]
    assert after == ""
    assert (await call("GET", "topics?scope=visible")).document["next"] == ""
    rest = (await call("GET", "topics?after=alice%2Fb&limit=9", by="alice")).document
    assert [topic["name"] for topic in rest["topics"]] == ["c", "d"]
    for query in ("limit=0", "limit=10001", f"after={'x' * 401}"):
        assert (await call("GET", f"topics?{query}")).status == 400


async def test_an_unknown_topic_and_one_of_others_answer_alike(call: Rest) -> None:
    await call("POST", "topics", NEW, by="alice")
    await call.user("bob")
    answers = []
    for name in ("alice%2Forders", "alice%2Fnothing", "alice%2Fnot a name"):
        replied = await call("GET", f"topics/{name}", by="bob")
        document = dict(replied.document)
        document["detail"] = document["detail"].replace("nothing", "orders")
        document["detail"] = document["detail"].replace("not a name", "orders")
        document.pop("instance")
        answers.append((replied.status, document))
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0] == 404


async def test_a_change_sets_and_removes_attributes_in_one_step(call: Rest) -> None:
    await call("POST", "topics", NEW, by="alice")
    change: dict[str, Any] = {"partitions": 3, "attributes": {"a": None, "b": "2"}}
    changed = await call("PATCH", "topics/orders", change, by="alice")
    assert changed.status == 200
    assert (changed.document["partitions"], changed.document["attributes"]) == (
        3,
        {"b": "2", "partitioner": "murmur2"},
    )
    assert (await call("PATCH", "topics/orders", {"partitions": 4}, by="alice")).status == 409
    kept = (await call("PATCH", "topics/orders", {"retention_s": 9e3}, by="alice")).document
    assert repr(kept["retention_s"]) == "9000"  # a whole number, however it was written
    assert (await call("PATCH", "topics/orders", {"retention_s": 1}, by="alice")).status == 422


@pytest.mark.parametrize(
    ("document", "status"),
    [({"name": "x"}, 400), ({"name": "__x", "partitions": 1}, 400),
     ({"name": "x", "partitions": 0}, 400), ({"name": "x", "partitions": 1.5}, 400),
     ({"name": "x", "partitions": 10_001}, 400), ({"name": "x", "partitions": 10_000}, 422),
     ({"name": "CL1/x", "partitions": 1}, 403),
     ({"name": "x", "partitions": 1, "attributes": {"": "v"}}, 400),
     ({"name": "x", "partitions": 1, "attributes": {"durability": "hope"}}, 422)],
)  # fmt: skip
async def test_a_topic_that_cannot_be_is_refused(call: Rest, document: Any, status: int) -> None:
    assert (await call("POST", "topics", document, by="alice")).status == status


async def test_offsets_can_be_looked_up_by_time(call: Rest) -> None:
    topic = await call.world.topic(alice(call), partitions=2)
    await call.world.put(alice(call), topic, 1, 3)
    replied = await call("GET", "topics/t/offsets?time_ms=0", by="alice")
    assert replied.document["partitions"] == [
        {"partition": 0, "start": 0, "end": -1, "next": 0, "at": 0},
        {"partition": 1, "start": 0, "end": 2, "next": 3, "at": 0},
    ]
    only = await call("GET", "topics/t/offsets?time_ms=0&partition=1", by="alice")
    assert only.document["partitions"] == replied.document["partitions"][1:]
    assert (await call("GET", "topics/t/offsets?partition=2", by="alice")).status == 404
    assert (await call("GET", "topics/t/offsets?time_ms=-1", by="alice")).status == 400
    assert (await call("GET", "topics/t/offsets?time_ms=soon", by="alice")).status == 400


@pytest.mark.parametrize("wanted", ["official", None])
async def test_how_keys_are_placed_is_chosen_at_creation_only(
    call: Rest, wanted: str | None
) -> None:
    evenly = {"attributes": {"partitioner": "murmur2"}}
    made = await call("POST", "topics", NEW, by="alice")
    assert (made.status, made.document["partitioner"]) == (201, "murmur2")
    change = {"attributes": {"partitioner": wanted}}
    refused = await call("PATCH", "topics/orders", change, by="alice")
    assert refused.status == 422
    assert "cannot be changed" in refused.document["detail"]
    found = await call("GET", "topics/orders", by="alice")
    assert found.document["partitioner"] == "murmur2"
    asked = NEW | {"name": "plain", "attributes": {"partitioner": "official"}}
    plain = await call("POST", "topics", asked, by="alice")
    assert (plain.status, plain.document["partitioner"]) == (201, "official")
    assert (await call("PATCH", "topics/plain", evenly, by="alice")).status == 422
    unknown = NEW | {"name": "bad", "attributes": {"partitioner": "sticky"}}
    assert (await call("POST", "topics", unknown, by="alice")).status == 422


async def test_states_and_offsets_of_a_part_of_the_partitions(call: Rest) -> None:
    await call("POST", "topics", NEW | {"partitions": 5}, by="alice")
    for query, wanted in (
        ("", [0, 1, 2, 3, 4]),
        ("?limit=2", [0, 1]),
        ("?from_partition=3", [3, 4]),
        ("?from_partition=1&limit=3", [1, 2, 3]),
        ("?from_partition=4&limit=10000", [4]),
        ("?from_partition=5", []),
        ("?limit=0", []),
    ):
        described = (await call("GET", f"topics/orders{query}", by="alice")).document
        assert [state["partition"] for state in described["states"]] == wanted, query
        assert described["consumer_partitions"] == 5
        offsets = (await call("GET", f"topics/orders/offsets{query}", by="alice")).document
        assert [entry["partition"] for entry in offsets["partitions"]] == wanted, query
    for query in ("limit=-1", "limit=10001", "from_partition=-1"):
        assert (await call("GET", f"topics/orders?{query}", by="alice")).status == 400

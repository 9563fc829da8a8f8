"""REST of the status: topics that the caller may see, with rates and lags."""

import asyncio

import pytest
from tests.unit.gateway.rest.support import Rest
from tests.unit.gateway.rest.topic.test_topics import alice


async def test_the_status_shows_amounts_rates_and_lags(
    call: Rest,
) -> None:
    topic = await call.world.topic(alice(call), partitions=2)
    await call.world.put(alice(call), topic, 0, 3)
    await call("POST", "topics/t/groups/g/workers", by="alice")
    first = (await call("GET", "status", by="alice")).document
    (shown,) = first["topics"]
    assert (first["server"], first["more"]) == ("s1", 0)
    assert (shown["messages"], shown["messages_per_s"]) == (3, None)
    assert shown["lags"] == {"g": 3}
    await call.world.put(alice(call), topic, 1, 5)
    await asyncio.sleep(10)
    (shown,) = (await call("GET", "status", by="alice")).document["topics"]
    assert shown["messages"] == 8
    assert shown["messages_per_s"] == 0.5
    await call.user("bob")
    assert (await call("GET", "status", by="bob")).document["topics"] == []


async def test_only_so_many_topics_are_shown(call: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opentalos.gateway.rest.cluster.status.TOPICS_MAX", 1)
    for name in ("a", "b", "c"):
        await call.world.topic(alice(call), name)
    shown = (await call("GET", "status", by="alice")).document
    assert ([topic["name"] for topic in shown["topics"]], shown["more"]) == (["a"], 2)


async def test_the_next_page_continues_where_the_first_one_ended(call: Rest) -> None:
    for name in ("a", "b", "c"):
        await call.world.topic(alice(call), name)
    first = (await call("GET", "status?limit=2", by="alice")).document
    assert ([topic["name"] for topic in first["topics"]], first["more"]) == (["a", "b"], 1)
    second = (await call("GET", f"status?after={first['next']}", by="alice")).document
    assert [topic["name"] for topic in second["topics"]] == ["c"]
    assert (second["more"], second["next"]) == (0, "")


async def test_topics_that_are_named_are_shown_if_the_caller_may_see_them(call: Rest) -> None:
    for name in ("a", "b", "c"):
        await call.world.topic(alice(call), name)
    await call.user("bob")
    path = "status?topics=alice/c,alice/a,alice/none"
    shown = (await call("GET", path, by="alice")).document
    assert [topic["name"] for topic in shown["topics"]] == ["a", "c"]
    assert (await call("GET", path, by="bob")).document["topics"] == []


async def test_amounts_of_a_wide_topic_are_those_of_its_ends(
    call: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentalos.broker.admin.overview.STATES_MAX", 2)
    narrow = await call.world.topic(alice(call), "narrow", partitions=2)
    wide = await call.world.topic(alice(call), "wide", partitions=3)
    await call.world.put(alice(call), narrow, 1, 4)
    await call.world.put(alice(call), wide, 2, 7)
    await call.world.broker.space_upkeep.run_once()
    first, second = (await call("GET", "status", by="alice")).document["topics"]
    assert (first["messages"], second["messages"]) == (4, 7)
    assert second["bytes"] == call.world.broker.context.spaces.used(wide) > 0
    assert first["bytes"] > 0

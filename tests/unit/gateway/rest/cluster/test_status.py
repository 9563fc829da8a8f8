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
    monkeypatch.setattr("opentalos.broker.admin.overview.TOPICS_MAX", 1)
    for name in ("a", "b", "c"):
        await call.world.topic(alice(call), name)
    shown = (await call("GET", "status", by="alice")).document
    assert ([topic["name"] for topic in shown["topics"]], shown["more"]) == (["a"], 2)

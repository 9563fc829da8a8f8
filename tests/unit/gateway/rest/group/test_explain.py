"""REST explains why a group does not move, by causes that are really there."""

import asyncio
from typing import Any

import pytest
from tests.unit.gateway.rest.support import Rest
from tests.unit.gateway.rest.topic.test_topics import alice

from opentalos.broker.values import Topic

GROUP = "topics/t/groups/g"


@pytest.fixture
async def topic(call: Rest) -> Topic:
    """Two partitions with three messages each, of alice."""
    made = await call.world.topic(alice(call), partitions=2)
    for partition in (0, 1):
        sent = {"messages": [{"text": f"{partition}-{number}"} for number in range(3)]}
        await call("POST", f"topics/t/partitions/{partition}/messages", sent, by="alice")
    return made


async def join(call: Rest, name: str = "") -> str:
    sent = {"worker": name} if name else None
    joined = await call("POST", f"{GROUP}/workers", sent, by="alice")
    return f"{GROUP}/workers/{joined.document['worker']}"


async def explained(call: Rest, by: str = "alice") -> dict[str, Any]:
    replied = await call("GET", f"{GROUP}/explain", by=by)
    assert replied.status == 200, replied
    found: dict[str, Any] = replied.document
    return found


def codes(found: dict[str, Any]) -> list[str]:
    return [reason["code"] for reason in found["reasons"]]


async def commit(call: Rest, worker: str, **offsets: int) -> None:
    sent = {"offsets": {name.removeprefix("p"): offset for name, offset in offsets.items()}}
    assert (await call("POST", f"{worker}/commits", sent, by="alice")).document["refused"] == []


@pytest.mark.usefixtures("topic")
async def test_a_group_moves_and_is_caught_up(call: Rest) -> None:
    worker = await join(call)
    found = await explained(call)
    assert (found["state"], found["lag"], found["workers"]) == ("moving", 6, 1)
    await commit(call, worker, p0=2, p1=2)
    found = await explained(call)
    assert (found["state"], codes(found)) == ("caught_up", ["caught_up"])


@pytest.mark.usefixtures("topic")
async def test_a_group_whose_workers_left_has_none(call: Rest) -> None:
    worker = await join(call)
    await commit(call, worker, p0=1)
    await call("DELETE", worker, by="alice")
    found = await explained(call)
    assert (found["state"], codes(found)) == ("stuck", ["no_workers"])
    assert found["reasons"][0]["partitions"] == [0, 1]
    assert "4 messages" in found["reasons"][0]["text"]


@pytest.mark.usefixtures("topic")
async def test_a_worker_that_renews_and_commits_nothing_is_found(call: Rest) -> None:
    worker = await join(call)
    await commit(call, worker, p0=2)
    for _ in range(6):
        await asyncio.sleep(7)
        await call("POST", f"{worker}/renew", by="alice")
    found = await explained(call)
    assert (found["state"], codes(found)) == ("stuck", ["not_committing"])
    (reason,) = found["reasons"]
    assert reason["partitions"] == [1]
    assert reason["figures"]["idle_s"] >= 42
    await commit(call, worker, p1=0)
    assert (await explained(call))["state"] == "moving"


@pytest.mark.usefixtures("topic")
async def test_partitions_that_no_worker_takes_are_found(call: Rest) -> None:
    first, second = await join(call), await join(call)
    await call("POST", f"{first}/renew", by="alice")  # gives one away, and the second does nothing
    found = await explained(call)
    assert codes(found) == ["not_held", "moving"]
    assert found["workers"] == 2
    await call("POST", f"{second}/renew", by="alice")
    assert codes(await explained(call)) == ["moving"]


async def test_a_position_that_the_log_dropped_is_found(call: Rest, topic: Topic) -> None:
    worker = await join(call)
    await commit(call, worker, p0=0, p1=2)
    await call.world.broker.record_deletion.delete(alice(call), topic.resource, 0, 3)
    found = await explained(call)
    assert "position_expired" in codes(found)
    assert found["reasons"][0]["figures"] == {"dropped": 2}


@pytest.mark.usefixtures("topic")
async def test_workers_that_come_and_go_in_a_loop_are_found(call: Rest) -> None:
    for _ in range(4):
        worker = await join(call)
        await call("DELETE", worker, by="alice")
    await join(call)
    found = await explained(call)
    assert codes(found) == ["rebalancing", "moving"]
    await asyncio.sleep(121)
    await join(call)
    assert "rebalancing" not in codes(await explained(call))


@pytest.mark.usefixtures("topic")
async def test_a_quota_that_delays_reads_is_found(call: Rest) -> None:
    worker = await join(call)
    quota = {"get_bytes_per_s": 10}
    assert (await call("PUT", "topics/alice%2Ft/quota", quota, by="root")).status == 204
    await call("GET", f"{worker}/messages?encoding=text", by="alice")
    found = await explained(call)
    assert codes(found) == ["throttled", "moving"]
    assert found["reasons"][0]["figures"]["limit"] == 10
    assert "get bytes of topic t" in found["reasons"][0]["text"]


@pytest.mark.usefixtures("topic")
async def test_an_unknown_group_and_one_of_others_answer_alike(call: Rest) -> None:
    await join(call)
    await call.user("bob")
    await call("PUT", "topics/t/permissions/bob", {"permissions": ["DESCRIBE_TOPIC"]}, by="alice")
    replies = [
        await call("GET", f"topics/alice%2Ft/groups/{name}/explain", by="bob")
        for name in ("g", "x", "alice%2Fg")
    ]
    assert [replied.status for replied in replies] == [404] * 3
    titles = {replied.document["title"] for replied in replies}
    assert titles == {"ConsumerGroupNotExist"}
    owner = await call("GET", "topics/t/groups/alice%2Fg/explain", by="alice")
    assert owner.status == 200

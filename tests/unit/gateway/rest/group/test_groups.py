"""REST of groups: progress, resets, and workers that share by leases."""

import asyncio
from typing import Any

import pytest
from tests.unit.gateway.rest.support import Rest
from tests.unit.gateway.rest.topic.test_topics import alice

from opentalos.broker.values import ConsumeUnit
from opentalos.model.errors import OffsetOutOfRange, StoreUnavailable

GROUP = "topics/t/groups/g"


@pytest.fixture
async def topic(call: Rest) -> str:
    made = await call.world.topic(alice(call), partitions=2)
    for partition in (0, 1):
        sent = {"messages": [{"text": f"{partition}-{number}"} for number in range(3)]}
        await call("POST", f"topics/t/partitions/{partition}/messages", sent, by="alice")
    return made.resource


async def join(call: Rest) -> str:
    joined = await call("POST", f"{GROUP}/workers", by="alice")
    assert joined.status == 201
    assert joined.document["lease_s"] == 30.0
    return f"{GROUP}/workers/{joined.document['worker']}"


async def texts(call: Rest, worker: str, query: str = "") -> list[str]:
    replied = await call("GET", f"{worker}/messages?encoding=text&{query}", by="alice")
    assert replied.status == 200, replied
    return sorted(message["text"] for message in replied.document["messages"])


async def checkpoints(call: Rest) -> list[int]:
    shown = (await call("GET", GROUP, by="alice")).document
    return [partition["checkpoint"] for partition in shown["partitions"]]


@pytest.mark.usefixtures("topic")
async def test_a_commit_of_a_partition_that_is_not_there_does_not_deny_the_worker(
    call: Rest,
) -> None:
    worker = await join(call)
    refused = await call("POST", f"{worker}/commits", {"offsets": {"2": 0}}, by="alice")
    assert (refused.status, refused.document["title"]) == (422, "Unusable")
    assert "none is 2" in refused.document["detail"]
    assert refused.document["outcome"] == "not done"


@pytest.mark.usefixtures("topic")
async def test_a_worker_reads_again_until_it_commits(call: Rest) -> None:
    worker = await join(call)
    everything = ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"]
    for _ in range(2):
        seen: set[str] = set()
        for _ in range(4):  # a reply need not have every partition
            seen |= {*await texts(call, worker)}
        assert sorted(seen) == everything
    done = await call("POST", f"{worker}/commits", {"offsets": {"0": 2, "1": 0}}, by="alice")
    assert done.document == {"committed": [0, 1], "refused": []}
    assert await texts(call, worker, "wait_s=2") == ["1-1", "1-2"]
    shown = (await call("GET", GROUP, by="alice")).document
    assert [partition["lag"] for partition in shown["partitions"]] == [0, 2]
    assert {partition["worker"] for partition in shown["partitions"]} == {worker.rsplit("/", 1)[1]}
    listed = (await call("GET", "topics/t/groups", by="alice")).document
    (group,) = listed["groups"]
    assert (group["group"], group["lag"], group["lag_max"], group["behind"]) == ("g", 2, 2, 1)
    assert group["lag_s"] >= 0


@pytest.mark.usefixtures("topic")
async def test_two_workers_share_and_one_takes_over_what_the_other_leaves(call: Rest) -> None:
    first, second = await join(call), await join(call)

    async def held(worker: str) -> list[int]:
        replied = await call("POST", f"{worker}/renew", by="alice")
        return list(replied.document["partitions"])

    assert await held(second) == []  # never what is held
    assert len(await held(first)) == 1
    assert await held(first) != await held(second)
    refused = await call("POST", f"{second}/commits", {"offsets": {"0": 0, "1": 0}}, by="alice")
    assert sorted(map(len, refused.document.values())) == [1, 1]
    assert (await call("DELETE", first, by="alice")).status == 204
    assert await held(second) == [0, 1]
    gone = await call("POST", f"{first}/renew", by="alice")
    assert (gone.status, gone.document["title"]) == (409, "LeaseNotHeld")
    assert (await call("GET", f"{first}/messages", by="alice")).status == 409
    assert (await call("DELETE", first, by="alice")).status == 204


async def test_a_worker_of_another_kind_keeps_what_it_holds(call: Rest, topic: str) -> None:
    consumers, caller = call.world.broker.consumers, alice(call)
    sdk = ConsumeUnit("g", topic, "sdk-worker", (0,))
    await consumers.lock_worker(caller, sdk, "192.0.2.7")
    await consumers.lock_partitions(caller, sdk, "192.0.2.7")
    worker = await join(call)
    assert {*await texts(call, worker)} == {"1-0", "1-1", "1-2"}
    assert (await consumers.renew(caller, sdk, "192.0.2.7")) == (True, [])


@pytest.mark.usefixtures("topic")
async def test_a_fetch_waits_for_the_first_message(call: Rest) -> None:
    worker = await join(call)
    await call("POST", f"{worker}/commits", {"offsets": {"0": 2, "1": 2}}, by="alice")
    waiting = asyncio.create_task(texts(call, worker, "wait_s=10"))
    await asyncio.sleep(0.7)
    assert not waiting.done()
    path = "topics/t/partitions/1/messages"
    await call("POST", path, {"messages": [{"text": "news"}]}, by="alice")
    assert await waiting == ["news"]


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize(
    ("to", "after"),
    [("start", [-1, -1]), ("end", [2, 2]), ({"time_ms": 0}, [-1, -1]),
     ({"time_ms": 1 << 50}, [2, 2]), ({"offsets": {"1": 1}}, [0, 1]),
     ({"offsets": {"0": -1}}, [-1, 1])],
)  # fmt: skip
async def test_a_reset_does_what_its_dry_run_said(call: Rest, to: Any, after: list[int]) -> None:
    worker = await join(call)
    await call("POST", f"{worker}/commits", {"offsets": {"0": 0, "1": 1}}, by="alice")
    dry = await call("POST", f"{GROUP}/reset", {"to": to, "dry_run": True}, by="alice")
    assert dry.status == 200
    assert await checkpoints(call) == [0, 1]
    done = await call("POST", f"{GROUP}/reset", {"to": to}, by="alice")
    assert done.document == dry.document
    assert await checkpoints(call) == after
    undo = {
        str(partition["partition"]): partition["before"]
        for partition in done.document["partitions"]
    }
    await call("POST", f"{GROUP}/reset", {"to": {"offsets": undo}}, by="alice")
    assert await checkpoints(call) == [0, 1]


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize(
    ("to", "status"),
    [("middle", 400), ({}, 400), ({"offsets": {}}, 400), ({"offsets": {"x": 1}}, 400),
     ({"offsets": {"0": 3}}, 409), ({"offsets": {"2": 0}}, 422), ({"time_ms": -1}, 400)],
)  # fmt: skip
async def test_a_reset_that_cannot_be_changes_nothing(call: Rest, to: Any, status: int) -> None:
    await join(call)
    for dry in (True, False):
        replied = await call("POST", f"{GROUP}/reset", {"to": to, "dry_run": dry}, by="alice")
        assert replied.status == status
    assert await checkpoints(call) == [-1, -1]


@pytest.mark.usefixtures("topic")
async def test_unknown_groups_and_those_of_others_answer_alike(call: Rest) -> None:
    await join(call)
    await call.user("reader")
    for group in ("nothing", "g"):
        path = f"topics/alice%2Ft/groups/{group}"
        assert (await call("GET", path, by="reader")).status == 404
        replied = await call("POST", f"{path}/reset", {"to": "end"}, by="reader")
        assert replied.status == 404
    assert (await call("GET", "topics/t/groups/nothing", by="alice")).status == 404
    replied = await call("POST", "topics/t/groups/nothing/reset", {"to": "end"}, by="alice")
    assert replied.status == 404
    assert (await call("DELETE", "topics/t/groups/nothing", by="alice")).status == 404
    assert (await call("GET", "topics/t/groups/-bad-", by="alice")).status == 404


@pytest.mark.usefixtures("topic")
async def test_the_owner_manages_another_tenants_group_by_its_tenant_and_name(call: Rest) -> None:
    await join(call)
    await call.user("reader")
    await call("PUT", "topics/t/permissions/reader", {"permissions": ["GET_MESSAGE"]}, by="alice")
    joined = await call("POST", "topics/alice%2Ft/groups/g/workers", by="reader")
    assert joined.status == 201, joined
    listed = (await call("GET", "topics/t/groups", by="alice")).document["groups"]
    assert [group["group"] for group in listed] == ["g", "reader/g"]
    shown = await call("GET", "topics/t/groups/reader%2Fg", by="alice")
    assert shown.document.get("group") == "reader/g", shown
    assert (await call("DELETE", "topics/t/groups/reader%2Fg", by="alice")).status == 409
    worker = f"topics/alice%2Ft/groups/g/workers/{joined.document['worker']}"
    assert (await call("DELETE", worker, by="reader")).status == 204
    other = await call("DELETE", "topics/alice%2Ft/groups/alice%2Fg", by="reader")
    assert other.status == 403
    assert (await call("DELETE", "topics/t/groups/reader%2Fg", by="alice")).status == 204
    assert (await call("GET", GROUP, by="alice")).status == 200


@pytest.mark.usefixtures("topic")
async def test_a_group_is_deleted_once_it_has_no_workers(call: Rest) -> None:
    worker = await join(call)
    assert (await call("DELETE", GROUP, by="alice")).status == 409
    await call("DELETE", worker, by="alice")
    assert (await call("DELETE", GROUP, by="alice")).status == 204
    assert (await call("GET", GROUP, by="alice")).status == 404


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize(("failing", "outcome"), [(0, "not done"), (1, "unknown")])
async def test_a_reset_that_breaks_off_says_whether_something_is_done(
    call: Rest, monkeypatch: pytest.MonkeyPatch, failing: int, outcome: str
) -> None:
    await join(call)
    consumers = call.world.broker.consumers
    reset = consumers.reset_checkpoint

    async def broken(caller: Any, key: Any, offset: int) -> None:
        if key.partition == failing:
            raise StoreUnavailable("the rows are away")
        await reset(caller, key, offset)

    monkeypatch.setattr(consumers, "reset_checkpoint", broken)
    replied = await call("POST", f"{GROUP}/reset", {"to": "end"}, by="alice")
    assert (replied.status, replied.document["outcome"]) == (504 if failing else 503, outcome)
    assert await checkpoints(call) == ([2, -1] if failing else [-1, -1])


@pytest.mark.usefixtures("topic")
async def test_an_expired_position_is_reported(call: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = await join(call)
    await call("POST", f"{worker}/commits", {"offsets": {"0": 0}}, by="alice")

    async def expired(*_: Any, **__: Any) -> None:
        raise OffsetOutOfRange("offset 1 is not retained")

    monkeypatch.setattr(call.world.broker.plain_messages, "get_anywhere", expired)
    replied = await call("GET", f"{worker}/messages", by="alice")
    assert (replied.status, replied.document["title"]) == (404, "OffsetOutOfRange")


async def groups_of_all(call: Rest, by: str, limit: int) -> list[tuple[str, str, int]]:
    rows: list[tuple[str, str, int]] = []
    after = None
    while after != "":
        query = f"?limit={limit}" + (f"&after={after}" if after else "")
        page = (await call("GET", f"groups{query}", by=by)).document
        assert page["unknown"] == []
        rows += [(row["topic"], row["group"], row["lag"]) for row in page["groups"]]
        after = page["next"]
    return rows


@pytest.mark.usefixtures("topic")
async def test_the_groups_of_all_topics_are_read_page_by_page(call: Rest) -> None:
    for name in ("a", "x", "b"):
        await call.world.topic(alice(call), name)
    for path in ("t/groups/g", "t/groups/f", "x/groups/g"):
        await call("POST", f"topics/{path}/workers", by="alice")
    wanted = [("t", "f", 6), ("t", "g", 6), ("x", "g", 0)]
    for limit in (1, 2, 4, 200):
        assert await groups_of_all(call, "alice", limit) == wanted
    shown = await groups_of_all(call, "root", 200)
    assert [(topic, lag) for topic, _, lag in shown] == [("t", 6), ("t", 6), ("x", 0)]
    await call.user("bob")
    assert await groups_of_all(call, "bob", 200) == []
    assert (await call("GET", "groups?limit=201")).status == 400


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("pages_max", [0, 1, 20])
async def test_groups_of_many_topics_are_found(
    call: Rest, monkeypatch: pytest.MonkeyPatch, pages_max: int
) -> None:
    monkeypatch.setattr("opentalos.broker.admin.overview.LAGS_AT_ONCE", 2)
    monkeypatch.setattr("opentalos.group.group_rows.TOPIC_PAGES_MAX", pages_max)
    monkeypatch.setattr("opentalos.group.group_rows.SCAN_ROWS_MAX", 3)
    for name in ("a", "b", "c", "x"):
        await call.world.topic(alice(call), name)
    for path in ("t/groups/g", "t/groups/f", "x/groups/g"):
        await call("POST", f"topics/{path}/workers", by="alice")
    wanted = [("t", "f", 6), ("t", "g", 6), ("x", "g", 0)]
    assert await groups_of_all(call, "alice", 200) == wanted
    status = (await call("GET", "status", by="alice")).document
    assert {topic["name"]: topic["lags"] for topic in status["topics"]} == {
        "a": {}, "b": {}, "c": {}, "t": {"f": 6, "g": 6}, "x": {"g": 0},
    }  # fmt: skip


@pytest.mark.usefixtures("topic")
async def test_topics_whose_groups_cannot_be_read_are_named(
    call: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await call("POST", f"{GROUP}/workers", by="alice")

    async def unavailable(*_: Any) -> None:
        raise StoreUnavailable("no rows now")

    monkeypatch.setattr(call.world.broker.lag_figures, "of_topic", unavailable)
    page = (await call("GET", "groups", by="alice")).document
    assert page == {"groups": [], "unknown": [{"owner": "alice", "topic": "t"}], "next": ""}


async def test_a_part_of_a_group_is_listed_in_the_order_that_is_asked_for(call: Rest) -> None:
    await call.world.topic(alice(call), "wide", partitions=5)
    for partition, count in ((1, 2), (3, 4)):
        sent = {"messages": [{"text": "x"}] * count}
        await call("POST", f"topics/wide/partitions/{partition}/messages", sent, by="alice")
    path = "topics/wide/groups/g"
    worker = (await call("POST", f"{path}/workers", by="alice")).document["worker"]

    async def listed(query: str) -> list[int]:
        found = (await call("GET", f"{path}?{query}", by="alice")).document
        assert (found["lag"], found["lag_max"], found["behind"]) == (6, 4, 2)
        assert (found["partitions_count"], found["held"]) == (5, 5)
        return [entry["partition"] for entry in found["partitions"]]

    assert await listed("") == [0, 1, 2, 3, 4]
    assert await listed("limit=2&from=1") == [1, 2]
    assert await listed("limit=0") == []
    assert await listed("order=lag&limit=1") == [3]
    assert await listed("order=lag&limit=3") == [3, 1, 0]
    assert await listed("order=worker&from=4") == [4]
    (member,) = (await call("GET", path, by="alice")).document["members"]
    assert (member["worker"], member["partitions"]) == (worker, [0, 1, 2, 3, 4])
    assert (member["partitions_count"], member["lag"]) == (5, 6)
    assert (await call("GET", f"{path}?order=size", by="alice")).status == 400


@pytest.mark.usefixtures("topic")
async def test_the_age_of_a_lag_is_that_of_the_oldest_message_that_waits(call: Rest) -> None:
    worker = await join(call)

    async def age_s() -> float:
        found = (await call("GET", GROUP, by="alice")).document
        (listed,) = (await call("GET", "groups", by="alice")).document["groups"]
        assert listed["lag_s"] == found["lag_s"]
        return float(found["lag_s"])

    before = await age_s()
    call.world.clock.now_ms += 60_000
    assert await age_s() == before + 60.0
    sent = {"messages": [{"text": "late"}]}
    await call("POST", "topics/t/partitions/0/messages", sent, by="alice")
    await call("POST", f"{worker}/commits", {"offsets": {"0": 2, "1": 2}}, by="alice")
    assert await age_s() < 60.0
    await call("POST", f"{worker}/commits", {"offsets": {"0": 3}}, by="alice")
    assert await age_s() == 0.0

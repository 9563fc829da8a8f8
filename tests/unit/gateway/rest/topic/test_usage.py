"""REST of usage: the log of a partition by minute, for those who may see it."""

from typing import Any

import pytest
from tests.unit.gateway.rest.support import Rest
from tests.unit.gateway.rest.topic.test_topics import alice

from opentalos.broker.quota import usage as usage_module
from opentalos.log.metering.meter import Minutes
from opentalos.log.metering.recount import minutes_of
from opentalos.model.identity import Permission

MINUTE_MS = 60_000


async def filled(call: Rest, *counts: int) -> int:
    """A topic of alice's with one put a minute; the first minute."""
    await call.user("bob")
    topic = await call.world.topic(alice(call), partitions=2)
    clock = call.world.clock
    clock.now_ms += MINUTE_MS - clock.now_ms % MINUTE_MS
    first_ms = clock.now_ms
    for count in counts:
        await call.world.put(alice(call), topic, 1, count)
        clock.now_ms += MINUTE_MS
    return first_ms


async def usage(call: Rest, query: str = "", by: str = "alice") -> dict[str, Any]:
    found: dict[str, Any] = (await call("GET", f"topics/t/usage{query}", by=by)).document
    return found


@pytest.mark.parametrize("by", ["alice", "root"])
async def test_minutes_chain_and_add_up(call: Rest, by: str) -> None:
    first_ms = await filled(call, 3, 5)
    path = "topics/alice%2Ft/usage?partition=1" if by == "root" else "topics/t/usage?partition=1"
    found = (await call("GET", path, by=by)).document
    assert (found["name"], found["tenant"], found["partitions"]) == ("t", "alice", 2)
    assert (found["start_offset"], found["next_offset"], found["next_page"]) == (0, 8, None)
    assert (found["metered_offset"], found["metered_since"]) == (-1, 0)
    assert found["total_bytes"] > 8
    assert found["minutes"] == [
        {
            "minute_ms": first_ms,
            "records": 3,
            "bytes": 3,
            "first_offset": 0,
            "next_offset": 3,
        },
        {
            "minute_ms": first_ms + MINUTE_MS,
            "records": 5,
            "bytes": 5,
            "first_offset": 3,
            "next_offset": 8,
        },
    ]


async def test_pages_follow_each_other(call: Rest) -> None:
    await filled(call, 1, 1, 1)
    offset, found = 0, []
    for page in range(3):
        answer = await usage(call, f"?partition=1&minutes_max=1&offset={offset}")
        found += answer["minutes"]
        if page < 2:
            offset = answer["next_page"]
    assert answer["next_page"] is None
    assert [(item["first_offset"], item["next_offset"]) for item in found] == [
        (0, 1),
        (1, 2),
        (2, 3),
    ]


async def test_an_offset_inside_a_block_begins_at_the_block(call: Rest) -> None:
    await filled(call, 4, 4)
    (minute,) = (await usage(call, "?partition=1&offset=6"))["minutes"]
    assert (minute["first_offset"], minute["next_offset"]) == (4, 8)


async def test_an_offset_after_the_end_gets_the_state_without_minutes(call: Rest) -> None:
    await filled(call, 4, 4)
    found = await usage(call, f"?partition=1&offset={(1 << 62) - 1}&minutes_max=1")
    assert (found["minutes"], found["next_offset"], found["next_page"]) == ([], 8, None)


async def test_an_empty_partition_has_no_minutes(call: Rest) -> None:
    await filled(call)
    found = await usage(call)
    assert (found["minutes"], found["next_page"], found["partition"]) == ([], None, 0)


async def test_a_reader_may_not_see_what_is_billed(call: Rest) -> None:
    await filled(call, 1)
    assert (await call("GET", "topics/alice%2Ft/usage", by="bob")).status == 404
    grant = {"permissions": ["GET_MESSAGE", "DESCRIBE_TOPIC"]}
    await call("PUT", "topics/t/permissions/bob", grant, by="alice")
    assert (await call("GET", "topics/alice%2Ft/usage", by="bob")).status == 403


async def test_an_unknown_partition_is_not_a_resource(call: Rest) -> None:
    await filled(call, 1)
    assert (await call("GET", "topics/t/usage?partition=2", by="alice")).status == 404


async def test_pages_of_a_log_that_grows_come_to_an_end(
    call: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(call, 1)
    topic = call.world.broker.context.find_topic(alice(call), Permission.GET_MESSAGE, "t")
    real = minutes_of

    async def beside_a_put(*args: Any, **bounds: Any) -> Minutes:
        found = await real(*args, **bounds)
        await call.world.put(alice(call), topic, 1, 1)
        return found

    monkeypatch.setattr(usage_module, "minutes_of", beside_a_put)
    found = await usage(call, "?partition=1")
    assert (found["next_offset"], found["next_page"]) == (1, None)

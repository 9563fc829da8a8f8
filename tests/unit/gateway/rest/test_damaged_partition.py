"""REST of a topic with a damaged partition: the error by its name, or null, as documented."""

from typing import Any

import pytest
from tests.unit.gateway.rest.message.test_events import follow
from tests.unit.gateway.rest.support import Rest
from tests.unit.gateway.rest.topic.test_topics import alice

from opentalos.model.errors import CorruptLog

COUNT = 3
GROUP = "topics/t/groups/g"


@pytest.fixture
async def damaged(call: Rest) -> Rest:
    """Three messages in each of two partitions; what follows in partition 0 is damaged."""
    topic = await call.world.topic(alice(call), partitions=2)
    for partition in (0, 1):
        sent = {"messages": [{"text": f"{partition}-{number}"} for number in range(COUNT)]}
        await call("POST", f"topics/t/partitions/{partition}/messages", sent, by="alice")
    await call("POST", f"{GROUP}/workers", by="alice")
    await call.world.damage(topic, 0)
    return call


async def get(call: Rest, path: str) -> Any:
    return (await call("GET", path, by="alice")).document


@pytest.mark.parametrize("query", ["?at=end", f"?offset={COUNT}", "?time_ms=9000000000000"])
async def test_a_read_at_the_end_of_what_is_whole_is_an_error(damaged: Rest, query: str) -> None:
    found = await damaged("GET", f"topics/t/partitions/0/messages{query}", by="alice")
    assert (found.status, found.document["title"]) == (500, "CorruptLog")
    assert found.document["detail"] == "partition 0 is damaged"


async def test_a_read_from_the_start_gives_what_is_whole_without_a_lag(damaged: Rest) -> None:
    found = await get(damaged, "topics/t/partitions/0/messages")
    assert (len(found["messages"]), found["next_offset"], found["lag"]) == (COUNT, COUNT, None)
    assert (await get(damaged, "topics/t/partitions/1/messages"))["lag"] == 0


async def test_offsets_have_the_start_and_the_error(damaged: Rest) -> None:
    found = (await get(damaged, "topics/t/offsets?time_ms=1"))["partitions"]
    assert found[0] == {"partition": 0, "start": 0, "error": "partition 0 is damaged"}
    assert (found[1]["next"], found[1]["at"]) == (COUNT, 0)


async def test_amounts_and_lags_are_null(damaged: Rest) -> None:
    (topic,) = (await get(damaged, "status?topics=alice/t"))["topics"]
    assert (topic["messages"], topic["bytes"], topic["lags"]) == (None, None, {"g": None})
    for path in ("groups", "topics/t/groups"):
        (listed,) = (await get(damaged, path))["groups"]
        assert (listed["lag"], listed["lag_s"], listed["lag_max"]) == (None, None, None)
        assert (listed["behind"], listed["damaged"]) == (1, 1)
    group = await get(damaged, f"{GROUP}?order=lag")
    assert [each["lag"] for each in group["partitions"]] == [None, COUNT]
    assert [each["lag"] for each in group["members"]] == [None]
    why = await get(damaged, f"{GROUP}/explain")
    assert (why["lag"], why["reasons"][0]["code"]) == (None, "damaged")


async def test_usage_is_what_is_whole(damaged: Rest) -> None:
    """The bills of all tenants ask every partition; one that is damaged keeps no month open."""
    for partition in (0, 1):
        usage = await get(damaged, f"topics/t/usage?partition={partition}")
        assert (usage["start_offset"], usage["next_offset"]) == (0, COUNT)


async def test_health_names_it(damaged: Rest) -> None:
    found = (await damaged("GET", "health")).document
    assert found["status"] == "critical"
    (alarm,) = found["alarms"]
    assert alarm["name"] == "CorruptLog"
    assert "alice/t/0 (partition 0 is damaged)" in alarm["text"]


async def test_a_stream_of_events_continues_with_the_other_partitions(damaged: Rest) -> None:
    exchange, stream = follow(damaged)
    while b"".join(stream.written).count(b"data: ") < 2 * COUNT + 1:
        await stream.news()
    sent = {"messages": [{"text": "later"}]}
    await damaged("POST", "topics/t/partitions/1/messages", sent, by="alice")
    while b"later" not in stream.written[-1]:
        await stream.news()
    seen = b"".join(stream.written)
    assert seen.count(b"event: error") == 1
    assert b"urn:opentalos:error:CorruptLog" in seen
    exchange.drained()  # type: ignore[misc]
    await stream.ended()


async def test_a_stream_of_new_events_has_the_error_and_the_other_partitions(damaged: Rest) -> None:
    exchange, stream = follow(damaged, b"/rest/v1/topics/t/events?encoding=text&from=end")
    while b"event: error" not in b"".join(stream.written):
        await stream.news()
    sent = {"messages": [{"text": "later"}]}
    await damaged("POST", "topics/t/partitions/1/messages", sent, by="alice")
    while b"later" not in stream.written[-1]:
        await stream.news()
    assert b"".join(stream.written).count(b"data: ") == 2
    exchange.drained()  # type: ignore[misc]
    await stream.ended()


@pytest.mark.parametrize(("since", "seen"), [("1", 2 * COUNT + 1), ("9000000000000", 1)])
async def test_a_stream_from_a_time_has_the_error_and_the_other_partitions(
    damaged: Rest, since: str, seen: int
) -> None:
    path = b"/rest/v1/topics/t/events?encoding=text&from=" + since.encode()
    exchange, stream = follow(damaged, path)
    while b"".join(stream.written).count(b"data: ") < seen:
        await stream.news()
    assert b"".join(stream.written).count(b"event: error") == 1
    sent = {"messages": [{"text": "later"}]}
    await damaged("POST", "topics/t/partitions/1/messages", sent, by="alice")
    while b"later" not in stream.written[-1]:
        await stream.news()
    exchange.drained()  # type: ignore[misc]
    await stream.ended()


@pytest.mark.parametrize("since", ["start", "end", "1"])
async def test_a_stream_continues_although_nothing_of_a_partition_can_be_read(
    call: Rest, since: str
) -> None:
    topic = await call.world.topic(alice(call), partitions=2)
    log = call.world.broker.context.partition_log(topic, 0)
    log.writer._opening_damaged(CorruptLog("partition 0 is damaged"))
    exchange, stream = follow(
        call, b"/rest/v1/topics/t/events?encoding=text&from=" + since.encode()
    )
    while b"event: error" not in b"".join(stream.written):
        await stream.news()
    sent = {"messages": [{"text": "later"}]}
    await call("POST", "topics/t/partitions/1/messages", sent, by="alice")
    while b"later" not in stream.written[-1]:
        await stream.news()
    assert b"urn:opentalos:error:CorruptLog" in b"".join(stream.written)
    exchange.drained()  # type: ignore[misc]
    await stream.ended()


async def test_a_stream_of_damaged_partitions_only_ends_with_the_error(damaged: Rest) -> None:
    path = b"/rest/v1/topics/t/events?encoding=text&from=start&partition=0"
    _, stream = follow(damaged, path)
    seen = await stream.ended()
    assert seen.count(b"data: ") == COUNT + 1
    assert seen.count(b"event: error") == 1

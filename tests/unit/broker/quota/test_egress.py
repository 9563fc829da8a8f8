"""Reads become egress events: each returned byte in one event, whatever came between."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from tests.unit.broker.support import World, world

from opentalos.broker.messaging.messages import GetQuery
from opentalos.broker.messaging.plain_messages import Bounds, Spot
from opentalos.broker.quota import egress as egress_module
from opentalos.broker.quota import metering as metering_module
from opentalos.broker.quota.egress import EgressCounters
from opentalos.broker.values import Topic
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable
from opentalos.model.identity import Grantee, GrantType, Permission, Principal
from opentalos.model.limits import MeteringSettings
from opentalos.model.names import SYSTEM_TENANT, USAGE_TOPIC
from opentalos.wire.message import Message, decode_block
from opentalos.wire.metrics.egress import EgressEvent

ALICE = Principal(id="alice", number=7)
BOB = Principal(id="bob", number=8, organisation="CLbob")
ROOT = Principal(id="root", number=1, admin=True)
MINUTE_MS = 60_000


@dataclass
class Reading:
    """A world whose metering runs when a test says so, with a topic of four messages."""

    world: World
    topic: Topic

    async def read(self, caller: Principal = ALICE, offset: int = 0) -> int:
        query = GetQuery(self.topic.resource, 0, offset, 100, 1 << 20)
        found = await self.world.broker.messages.get(caller, query)
        return sum(len(block.payload) for block in found.blocks)

    async def meter(self) -> None:
        assert self.world.broker.metering is not None
        await self.world.broker.metering.run_once()

    def minute(self) -> None:
        self.world.clock.now_ms += MINUTE_MS

    async def events(self) -> list[dict[str, Any]]:
        """Egress events of __usage, by their order there."""
        broker, lines = self.world.broker, list[bytes]()
        usage = broker.context.topics.record(SYSTEM_TENANT, USAGE_TOPIC)
        for partition in range(usage.partitions if usage else 0):
            assert usage is not None
            log = broker.context.partition_log(usage, partition)
            if (await log.offsets()).next == 0:
                continue
            for block in (await log.read(0, messages_max=10_000, bytes_max=1 << 30)).blocks:
                found = decode_block(bytes(block.payload), block.compression, block.messages)
                lines += [message.data for message in found]
        return [event for event in map(json.loads, lines) if event.get("kind") == "egress"]


@pytest.fixture
async def reading(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reading]:
    monkeypatch.setattr(metering_module.Metering, "start", lambda self: None)
    async with world(metering=MeteringSettings(), incarnation="9f") as made:
        made.clock.now_ms -= made.clock.now_ms % MINUTE_MS
        topic = await made.topic(ALICE)
        await made.put(ALICE, topic, 0, 4)
        grantee = Grantee(GrantType.DEVELOPER, "bob")
        await made.broker.permissions.set_permission(
            ALICE, topic.resource, grantee, Permission.GET_MESSAGE
        )
        yield Reading(made, topic)


async def test_a_minute_that_is_over_is_one_event_per_reading_tenant(reading: Reading) -> None:
    began_ms = reading.world.clock.now_ms
    assert [await reading.read(), await reading.read(), await reading.read(BOB)] == [4, 4, 4]
    await reading.meter()
    assert await reading.events() == [], "the minute is not over"
    reading.minute()
    await reading.meter()
    await reading.meter()
    own, other = await reading.events()
    assert own == {
        "v": 1,
        "kind": "egress",
        "topic": reading.topic.uuid,
        "name": "t",
        "tenant": "alice",
        "reader": "alice",
        "minute_ms": began_ms,
        "source": "s1/9f",
        "number": 0,
        "messages": 8,
        "bytes": 8,
    }
    assert (other["tenant"], other["reader"], other["number"]) == ("alice", "CLbob", 1)


@pytest.mark.parametrize("stored", [False, True])
async def test_after_a_failed_put_the_same_events_come_again(
    reading: Reading, monkeypatch: pytest.MonkeyPatch, *, stored: bool
) -> None:
    metering = reading.world.broker.metering
    assert metering is not None
    put = metering._put

    async def fail(lines: Sequence[bytes]) -> None:
        if stored:
            await put(lines)
            raise OutcomeUnknown("no answer")
        raise StoreUnavailable("no room")

    await reading.read()
    reading.minute()
    await reading.meter()  # the usage of the put, and the first egress
    await reading.read()
    reading.minute()
    with monkeypatch.context() as patch:
        patch.setattr(metering, "_put", fail)
        with pytest.raises((StoreUnavailable, OutcomeUnknown)):
            await reading.meter()
    await reading.read()
    await reading.meter()
    reading.minute()
    await reading.meter()
    events = await reading.events()
    assert [event["number"] for event in events] == ([0, 1, 1, 2] if stored else [0, 1, 2])
    assert len({json.dumps(event) for event in events}) == 3
    assert {event["bytes"] for event in events} == {4}


async def test_a_stop_reports_the_open_minute_and_a_restart_has_another_source(
    reading: Reading,
) -> None:
    metering = reading.world.broker.metering
    assert metering is not None
    await reading.read()
    metering._task = asyncio.create_task(asyncio.sleep(0))
    await metering.close()
    (event,) = await reading.events()
    assert event["bytes"] == 4
    one, other = (
        EgressCounters(reading.world.clock, f"s1/{start}", MINUTE_MS) for start in ("a", "b")
    )
    for counters in (one, other):
        counters.add(reading.topic, ALICE, 1, 5)
    found = [*one.due(9, unfinished=True), *other.due(9, unfinished=True)]
    assert [(each.source, each.number) for each in found] == [("s1/a", 0), ("s1/b", 0)]


async def test_a_pass_turns_no_more_counters_into_events_than_it_writes_at_once(
    reading: Reading,
) -> None:
    counters = EgressCounters(reading.world.clock, "s1", MINUTE_MS)
    for number in range(5):
        reader = Principal(id=f"reader{number}", number=100 + number)
        counters.add(reading.topic, reader, 1, 1 + number)
    reading.minute()
    found = list[EgressEvent]()
    for size in (2, 2, 1):
        part = counters.due(2)
        assert len(part) == size
        assert len(counters._counters) == 5 - len(found) - size
        counters.written(part)
        found += part
    assert [event.bytes for event in found] == [1, 2, 3, 4, 5]
    assert counters.due(2) == []


async def test_a_page_counts_what_it_returns_not_the_block_it_is_from(reading: Reading) -> None:
    plain = reading.world.broker.plain_messages
    messages = [Message(b"x" * 100) for _ in range(10)]
    stored = await plain.put(ALICE, "t", 0, messages)
    assert stored.base_offset is not None
    for offset in range(stored.base_offset, stored.base_offset + 10, 2):
        page = await plain.get(ALICE, "t", Spot(0, offset), Bounds(2, 1 << 20))
        assert len(page.messages) == 2
    reading.minute()
    await reading.meter()
    (event,) = await reading.events()
    assert (event["messages"], event["bytes"]) == (10, 1_000)


async def test_the_services_own_topics_and_empty_replies_do_not_count(reading: Reading) -> None:
    await reading.read(offset=4)
    await reading.meter()
    usage = reading.world.broker.context.topics.record(SYSTEM_TENANT, USAGE_TOPIC)
    assert usage is not None
    for partition in range(usage.partitions):
        query = GetQuery(usage.resource, partition, 0, 100, 1 << 20)
        await reading.world.broker.messages.get(ROOT, query)
    reading.minute()
    await reading.meter()
    assert await reading.events() == []


async def test_a_clock_that_is_put_back_makes_a_second_event_of_the_minute(
    reading: Reading,
) -> None:
    began_ms = reading.world.clock.now_ms
    await reading.read()
    reading.minute()
    await reading.meter()
    reading.world.clock.now_ms = began_ms
    await reading.read()
    reading.minute()
    await reading.meter()
    events = await reading.events()
    assert [(event["minute_ms"], event["bytes"]) for event in events] == [(began_ms, 4)] * 2
    assert [event["number"] for event in events] == [0, 1]


async def test_without_room_for_a_counter_bytes_are_counted_as_lost(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(egress_module, "COUNTERS_MAX", 1)
    await reading.read()
    await reading.read(BOB)
    await reading.read()
    reading.minute()
    await reading.meter()
    (event,) = await reading.events()
    assert (event["reader"], event["bytes"]) == ("alice", 8)
    metering = reading.world.broker.metering
    assert metering is not None
    assert metering.figures.egress_lost_bytes == 4


@pytest.mark.parametrize("settings", [None, MeteringSettings(egress=False)])
async def test_it_can_be_switched_off(settings: MeteringSettings | None) -> None:
    async with world(metering=settings) as made:
        assert made.broker.context.egress is None
        topic = await made.topic(ALICE)
        await made.put(ALICE, topic, 0, 4)
        found = await made.broker.messages.get(ALICE, GetQuery(topic.resource, 0, 0, 9, 1 << 20))
        assert found.messages == 4

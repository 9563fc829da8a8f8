"""Metering: what is in __usage is what is in the log, whatever came between."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest
from tests.unit.broker.support import World, world

from opentalos.broker.broker import Broker
from opentalos.broker.quota import metering as metering_module
from opentalos.broker.values import Topic
from opentalos.model.errors import StorageFull, StoreUnavailable
from opentalos.model.identity import Principal
from opentalos.model.limits import MeteringSettings
from opentalos.model.names import SYSTEM_TENANT, USAGE_TOPIC
from opentalos.wire.message import decode_block
from opentalos.wire.metrics.usage import UsageEvent

ALICE = Principal(id="alice", number=7)
MINUTE_MS = 60_000


@dataclass
class Metered:
    """A world whose metering runs when a test says so."""

    world: World
    topic: Topic
    published: list[UsageEvent] = field(default_factory=list)

    @property
    def broker(self) -> Broker:
        return self.world.broker

    async def put(self, count: int, partition: int = 0) -> None:
        await self.world.put(ALICE, self.topic, partition, count)

    def minute(self) -> None:
        self.world.clock.now_ms += MINUTE_MS

    async def meter(self) -> bool:
        assert self.broker.metering is not None
        return await self.broker.metering.run_once()

    def mark(self, partition: int = 0) -> int:
        meter = self.broker.context.partition_log(self.topic, partition).writer.meter
        assert meter is not None
        return meter.mark.offset

    async def events(self) -> list[UsageEvent]:
        """Everything in __usage, in order of partition and offset."""
        broker, found = self.broker, []
        usage = broker.context.topics.record(SYSTEM_TENANT, USAGE_TOPIC)
        for partition in range(usage.partitions if usage else 0):
            assert usage is not None
            log = broker.context.partition_log(usage, partition)
            if (await log.offsets()).next == 0:
                continue
            read = await log.read(0, messages_max=100_000, bytes_max=1 << 30)
            for block in read.blocks:
                messages = decode_block(bytes(block.payload), block.compression, block.messages)
                found += [UsageEvent.decode(message.data) for message in messages]
        return found

    async def bill(self) -> dict[tuple[str, int, int], UsageEvent]:
        """The upserted table."""
        table: dict[tuple[str, int, int], UsageEvent] = {}
        for event in await self.events():
            held = table.get(event.key)
            if held is None or event.next_offset > held.next_offset:
                table[event.key] = event
        return table

    async def rows(self) -> list[tuple[int, int, int, int]]:
        """Partition, first offset, next offset and bytes of the table's rows."""
        rows = (await self.bill()).values()
        return sorted((row.partition, row.first_offset, row.next_offset, row.bytes) for row in rows)


@pytest.fixture
async def metered(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Metered]:
    monkeypatch.setattr(metering_module.Metering, "start", lambda self: None)
    async with world(metering=MeteringSettings(storage=False)) as made:
        made.clock.now_ms += MINUTE_MS - made.clock.now_ms % MINUTE_MS
        yield Metered(made, await made.topic(ALICE, partitions=2))


async def test_an_event_per_minute_chains_and_names_the_tenant(metered: Metered) -> None:
    first_ms = metered.world.clock.now_ms
    await metered.put(2)
    await metered.put(3)
    metered.minute()
    await metered.put(4)
    await metered.meter()
    (first, second) = await metered.events()
    topic = metered.topic
    assert first == UsageEvent(topic.uuid, "t", "alice", 0, first_ms, 5, 5, 0, 5)
    assert second == UsageEvent(topic.uuid, "t", "alice", 0, first_ms + MINUTE_MS, 4, 4, 5, 9)


async def test_an_open_minute_is_reported_again_and_moves_no_mark(metered: Metered) -> None:
    await metered.put(2)
    await metered.meter()
    assert metered.mark() == 0
    await metered.put(1)
    await metered.meter()
    await metered.meter()  # nothing is new
    assert [event.next_offset for event in await metered.events()] == [2, 3]
    assert metered.mark() == 0
    metered.minute()
    await metered.meter()
    assert metered.mark() == 3
    assert len(await metered.events()) == 2


async def test_nothing_is_appended_to_a_minute_that_the_clock_ended(metered: Metered) -> None:
    await metered.put(2)
    metered.minute()
    await metered.meter()
    metered.world.clock.now_ms -= MINUTE_MS // 2  # back into the metered minute
    await metered.put(1)
    metered.minute()
    await metered.meter()
    assert await metered.rows() == [(0, 0, 2, 2), (0, 2, 3, 1)]


async def test_after_a_restart_the_log_is_counted_from_the_mark_on(metered: Metered) -> None:
    await metered.put(2)
    metered.minute()
    await metered.put(3)
    await metered.world.restart()  # nothing was ever published
    await metered.broker.context.partition_log(metered.topic, 0).offsets()
    await metered.put(4)
    metered.minute()
    await metered.meter()
    assert await metered.rows() == [(0, 0, 2, 2), (0, 2, 9, 7)]
    assert metered.mark() == 9
    await metered.world.restart()
    await metered.broker.context.partition_log(metered.topic, 0).offsets()
    assert metered.mark() == 9
    before = len(await metered.events())
    await metered.meter()
    assert len(await metered.events()) == before


async def test_while_a_log_is_being_opened_the_clock_ends_no_minute(metered: Metered) -> None:
    """Blocks of a former owner may come to light, with append times of that minute."""
    await metered.put(2)
    await metered.world.restart()
    log = metered.broker.context.partition_log(metered.topic, 0)
    await log.offsets()
    log.writer.former_seen(log.writer.versioned.manifest)
    metered.minute()
    await metered.meter()
    assert await metered.rows() == [(0, 0, 2, 2)]
    assert metered.mark() == 0
    await metered.put(1)
    await metered.meter()
    metered.minute()
    await metered.meter()
    assert metered.mark() == 3
    assert await metered.rows() == [(0, 0, 2, 2), (0, 2, 3, 1)]


async def test_while_usage_takes_nothing_nothing_is_lost(
    metered: Metered, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: Sequence[bytes]) -> None:
        raise StoreUnavailable("no room")

    assert metered.broker.metering is not None
    with monkeypatch.context() as patch:
        patch.setattr(metered.broker.metering, "_put", refuse)
        for _ in range(20):  # more minutes than are kept in memory
            await metered.put(1)
            metered.minute()
        with pytest.raises(StoreUnavailable):
            await metered.meter()
        assert metered.mark() == 0
    for _ in range(9):
        await metered.meter()
    figures = metered.broker.metering.figures
    assert await metered.rows() == [(0, at, at + 1, 1) for at in range(20)]
    assert metered.mark() == 20
    await metered.meter()
    assert (figures.partitions_unmetered, figures.oldest_unmetered_s) == (0, 0.0)


async def test_how_late_metering_is_can_be_seen(
    metered: Metered, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(_: Sequence[bytes]) -> None:
        raise StoreUnavailable("no room")

    assert metered.broker.metering is not None
    monkeypatch.setattr(metered.broker.metering, "_put", refuse)
    await metered.put(1)
    for _ in range(11):
        metered.minute()
    with pytest.raises(StoreUnavailable):
        await metered.meter()
    figures = metered.broker.metering.figures
    assert (figures.partitions_unmetered, figures.oldest_unmetered_s) == (1, 600.0)
    assert "1 partitions wait to be metered, the oldest since 600 s" in caplog.text


async def test_the_last_minute_of_a_topic_is_reported_before_deletion(metered: Metered) -> None:
    await metered.put(5, partition=1)
    await metered.broker.topics.delete_topic(ALICE, metered.topic.resource)
    assert await metered.rows() == [(1, 0, 5, 5)]


async def test_what_a_deletion_could_not_report_is_reported_later(
    metered: Metered, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: Sequence[bytes]) -> None:
        raise StoreUnavailable("no room")

    assert metered.broker.metering is not None
    await metered.put(5)
    with monkeypatch.context() as patch:
        patch.setattr(metered.broker.metering, "_put", refuse)
        await metered.broker.topics.delete_topic(ALICE, metered.topic.resource)
    assert await metered.rows() == []
    await metered.meter()
    assert await metered.rows() == [(0, 0, 5, 5)]


async def test_the_last_minute_before_a_stop_is_reported(metered: Metered) -> None:
    await metered.put(5)
    metering = metered.broker.metering
    assert metering is not None
    metering._task = asyncio.create_task(asyncio.sleep(0))
    await metered.world.restart()
    assert await metered.rows() == [(0, 0, 5, 5)]


async def test_the_services_own_topics_are_not_metered(metered: Metered) -> None:
    await metered.put(1)
    metered.minute()
    for _ in range(3):
        await metered.meter()
        metered.minute()
    assert {event.name for event in await metered.events()} == {"t"}


async def test_a_full_disk_is_emptied_again(metered: Metered) -> None:
    await metered.put(1)
    log = metered.broker.context.log
    log._context.note_space(0)
    with pytest.raises(StorageFull):
        await metered.put(1)
    metered.minute()
    await metered.meter()  # or retention would wait without end
    assert metered.mark() == 1

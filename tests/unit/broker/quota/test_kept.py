"""Reports of what is kept: retention drops nothing before one, and none says too much."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from tests.unit.broker.support import World, world

from opentalos.broker.quota import kept as kept_module
from opentalos.broker.quota import metering as metering_module
from opentalos.broker.values import Topic
from opentalos.log.manifest.store import ManifestStore
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable
from opentalos.model.identity import Principal
from opentalos.model.limits import MeteringSettings
from opentalos.model.names import SYSTEM_TENANT, USAGE_TOPIC
from opentalos.wire.message import decode_block

ALICE = Principal(id="alice", number=7)
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


@dataclass
class Keeping:
    """A world whose metering and retention run when a test says so, with a topic of a day."""

    world: World
    topic: Topic

    @property
    def log(self) -> PartitionLog:
        return self.world.broker.context.partition_log(self.topic, 0)

    @property
    def now_ms(self) -> int:
        return self.world.clock.now_ms

    def pass_ms(self, count: int) -> None:
        self.world.clock.now_ms += count

    async def put(self, count: int) -> None:
        await self.world.put(ALICE, self.topic, 0, count)

    async def meter(self) -> bool:
        metering = self.world.broker.metering
        assert metering is not None
        return await metering.run_once()

    async def retain(self) -> int:
        """One pass of retention, with its jobs; returns the start offset."""
        upkeep = self.world.broker.context.log.upkeep
        await upkeep.run_pass()
        while upkeep.making_room():
            await upkeep._free(1)
        return self.log.range().start

    async def seal(self) -> None:
        """What is stored becomes a sealed segment; the server is started again."""
        await self.world.restart()
        await self.log.offsets()  # upkeep reads the manifests of earlier runs

    async def events(self) -> list[dict[str, Any]]:
        broker, lines = self.world.broker, list[bytes]()
        usage = broker.context.topics.record(SYSTEM_TENANT, USAGE_TOPIC)
        for partition in range(usage.partitions if usage else 0):
            assert usage is not None
            log = broker.context.partition_log(usage, partition)
            offset, end = await log.offsets()
            while offset < end:  # a read ends with its segment
                read = await log.read(offset, messages_max=10_000, bytes_max=1 << 30)
                for block in read.blocks:
                    found = decode_block(bytes(block.payload), block.compression, block.messages)
                    lines += [message.data for message in found]
                    offset = block.base_offset + block.messages
        return [event for event in map(json.loads, lines) if event.get("kind") == "kept"]

    async def said(self) -> list[tuple[int, int]]:
        """Start offset and minute of each event, by time."""
        events = await self.events()
        return sorted((event["start_offset"], event["minute_ms"]) for event in events)


@pytest.fixture
async def keeping(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Keeping]:
    monkeypatch.setattr(metering_module.Metering, "start", lambda self: None)
    async with world(metering=MeteringSettings(egress=False)) as made:
        made.clock.now_ms -= made.clock.now_ms % MINUTE_MS
        topic = await made.topic(ALICE, retention_s=86_400)
        yield Keeping(made, topic)


async def test_a_partition_is_reported_when_it_has_messages_and_every_hour(
    keeping: Keeping,
) -> None:
    await keeping.meter()
    assert await keeping.events() == []
    await keeping.put(3)
    began_ms = keeping.now_ms
    keeping.pass_ms(30_000)
    await keeping.meter()
    await keeping.meter()
    (event,) = await keeping.events()
    topic = keeping.topic
    assert event == {
        "v": 1,
        "kind": "kept",
        "topic": topic.uuid,
        "name": "t",
        "tenant": "alice",
        "partition": 0,
        "minute_ms": began_ms,
        "start_offset": 0,
    }
    keeping.pass_ms(HOUR_MS)
    await keeping.meter()
    assert await keeping.said() == [(0, began_ms), (0, began_ms + HOUR_MS)]


async def test_retention_waits_for_a_report_made_after_it_decided(keeping: Keeping) -> None:
    await keeping.put(3)
    keeping.pass_ms(MINUTE_MS)
    await keeping.meter()
    await keeping.seal()
    keeping.pass_ms(2 * DAY_MS)
    await keeping.meter()  # regular, before retention has decided
    keeping.pass_ms(10 * MINUTE_MS)
    assert await keeping.retain() == 0
    assert await keeping.retain() == 0
    decided_ms = keeping.now_ms
    await keeping.meter()
    assert (await keeping.said())[-1] == (0, decided_ms)
    assert await keeping.retain() == 3
    keeping.pass_ms(DAY_MS)
    await keeping.meter()
    assert (await keeping.said())[-1] == (0, decided_ms)  # nothing is kept


@pytest.mark.parametrize("error", [StoreUnavailable("away"), OutcomeUnknown("no answer")])
async def test_a_report_without_an_answer_is_made_again_and_nothing_is_dropped(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    await keeping.put(3)
    keeping.pass_ms(MINUTE_MS)
    await keeping.meter()
    await keeping.seal()
    keeping.pass_ms(2 * DAY_MS)
    await keeping.meter()
    assert await keeping.retain() == 0
    metering = keeping.world.broker.metering
    assert metering is not None
    put = metering._put

    async def unanswered(lines: Sequence[bytes]) -> None:
        if isinstance(error, OutcomeUnknown):
            await put(lines)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(metering, "_put", unanswered)
        with pytest.raises(type(error)):
            await keeping.meter()
    assert await keeping.retain() == 0
    await keeping.meter()
    assert await keeping.retain() == 3


async def test_the_next_owner_reports_what_the_one_before_did_not(keeping: Keeping) -> None:
    await keeping.put(3)
    keeping.pass_ms(MINUTE_MS)
    await keeping.meter()
    before = await keeping.said()
    await keeping.seal()
    keeping.pass_ms(MINUTE_MS)
    await keeping.meter()
    assert await keeping.said() == [*before, (0, keeping.now_ms)]


async def test_what_the_stored_manifest_says_counts_not_what_a_former_owner_knows(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keeping.put(3)
    load = ManifestStore.load

    async def trimmed(store: ManifestStore, key: Any) -> Any:
        found = await load(store, key)
        manifest = found.manifest
        if key.topic_uuid != keeping.topic.uuid:
            return found
        return found._replace(manifest=type(manifest)(start=2))

    monkeypatch.setattr(ManifestStore, "load", trimmed)
    await keeping.meter()
    assert [start for start, _ in await keeping.said()] == [2]


async def test_a_deleted_topic_was_kept_until_its_deletion(keeping: Keeping) -> None:
    await keeping.put(3)
    await keeping.meter()
    keeping.pass_ms(10 * MINUTE_MS)
    deleted_ms = keeping.now_ms
    await keeping.world.broker.topics.delete_topic(ALICE, keeping.topic.resource)
    keeping.pass_ms(DAY_MS)
    await keeping.meter()
    assert (await keeping.said())[-1] == (0, deleted_ms)


async def test_manifests_that_cannot_be_read_do_not_hold_up_metering(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keeping.put(3)

    async def away(log: PartitionLog) -> int:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(PartitionLog, "stored_start", away)
        patch.setattr(kept_module, "FAILURES_PER_PASS_MAX", 1)
        assert await keeping.meter()
    assert await keeping.events() == []
    metering = keeping.world.broker.metering
    assert metering is not None
    assert metering.figures.kept_failures == 1
    await keeping.meter()
    assert len(await keeping.events()) == 1


async def test_without_it_retention_waits_for_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metering_module.Metering, "start", lambda self: None)
    async with world(metering=MeteringSettings(egress=False, storage=False)) as made:
        keeping = Keeping(made, await made.topic(ALICE, retention_s=86_400))
        await keeping.put(3)
        keeping.pass_ms(MINUTE_MS)
        await keeping.meter()
        await keeping.seal()
        keeping.pass_ms(2 * DAY_MS)
        await keeping.meter()
        assert await keeping.retain() == 3
        assert await keeping.events() == []

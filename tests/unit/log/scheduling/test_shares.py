"""Shares of tenants and topics: those who hang leave memory and lanes to the others."""

import asyncio

import pytest
from tests.unit.log.bed import Answers, Bed, block, open_bed, until
from tests.unit.log.faults import FaultyFiles, Steps

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.results import TopicLogSettings
from opentalos.model.errors import ExcessivePending
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability

LIMITS = LogLimits(
    group_bytes_max=4_000,
    pending_bytes_max=64_000,
    pending_bytes_total_max=256_000,
    space_reserve_bytes=0,
    close_s=0.05,
)


def topic(name: str, tenant: str) -> TopicLogSettings:
    return TopicLogSettings(name, Durability.SYNCED, 86_400.0, tenant=tenant)


class HangingTopics(Steps):
    """Holds every commit of the topics named, until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: set[str] = set()
        self.released = asyncio.Event()

    async def step(self, name: str, path: str, after: bool) -> None:
        if name == "commit" and not after and path.split("/")[0] in self.topics:
            await self.released.wait()


async def hanging_bed(limits: LogLimits = LIMITS) -> tuple[Bed, HangingTopics]:
    storage, steps = MemoryStorage(), HangingTopics()
    return await open_bed(storage, files=FaultyFiles(storage, steps), limits=limits), steps


def fill(bed: Bed, settings: TopicLogSettings, partitions: int) -> tuple[int, str]:
    """Put until every partition refuses; the bytes taken in and the last reason."""
    reason = ""
    before = bed.store._context.pending_bytes
    for partition in range(partitions):
        try:
            while True:
                bed.store.partition(settings, partition).append(block(b"z" * 900), Answers())
        except ExcessivePending as error:
            reason = str(error)
    return bed.store._context.pending_bytes - before, reason


async def test_hanging_partitions_of_a_topic_leave_memory_to_its_tenant_and_to_others() -> None:
    bed, steps = await hanging_bed()
    steps.topics = {"sick", "sick-too"}
    taken, reason = fill(bed, topic("sick", "a"), 5)
    assert 60_000 < taken < 90_000
    assert "topic sick" in reason
    assert "it may hold" in reason
    more, reason = fill(bed, topic("sick-too", "a"), 5)
    assert more > 10_000
    assert taken + more <= 130_000
    well = Answers()
    for partition in range(20):
        bed.store.partition(topic("well", "b"), partition).append(block(b"z" * 900), well)
    await until(lambda: len(well.got) == 20)
    assert not well.errors
    assert bed.store.counters.refused_share > 0
    steps.released.set()
    await bed.store.close()


async def test_a_tenant_is_refused_by_its_name_and_many_get_less_each() -> None:
    bed, steps = await hanging_bed()
    steps.topics = {f"sick-{number}" for number in range(40)}
    taken = []
    for tenant in range(4):
        together, reasons = 0, []
        for number in range(8):
            more, reason = fill(bed, topic(f"sick-{tenant * 8 + number}", f"t{tenant}"), 1)
            together += more
            reasons.append(reason)
        taken.append(together)
        assert any(f"tenant t{tenant}" in reason for reason in reasons)
    assert taken == sorted(taken, reverse=True)
    assert taken[-1] > LIMITS.group_bytes_max
    steps.released.set()
    await until(lambda: bed.store._context.pending_bytes == 0)
    shares = bed.store._context.shares
    assert shares.of_tenant("t0").pending_bytes == shares.of_topic("sick-0").pending_bytes == 0
    await bed.store.close()


async def test_one_large_block_is_accepted_on_an_idle_server() -> None:
    limits = LogLimits(
        group_bytes_max=4_000,
        pending_bytes_max=64_000,
        pending_bytes_total_max=64_000,
        space_reserve_bytes=0,
    )
    bed, _ = await hanging_bed(limits)
    answers = Answers()
    bed.store.partition(topic("well", "b"), 0).append(block(b"z" * 60_000), answers)
    with pytest.raises(ExcessivePending, match="tenant b"):
        bed.store.partition(topic("well", "b"), 1).append(block(b"z" * 3_800), answers)
    await until(lambda: bool(answers.got))
    assert answers.bases == [0]
    await bed.store.close()

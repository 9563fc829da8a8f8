"""How many commits are under way at once follows the pace of the store."""

import asyncio

from tests.unit.log.bed import Answers, block, open_bed, put, until
from tests.unit.log.faults import FaultyFiles, Steps

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.scheduling.concurrency import LEAST, SAMPLE, Breadth
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability

MOST = 8
FLUSHED, SYNCED = Durability.FLUSHED, Durability.SYNCED
LIMITS = LogLimits(lanes=MOST, lane_stall_ms=60_000, space_reserve_bytes=0)


class CountingSteps(Steps):
    """Commits take a few turns of the loop; notes how many were under way at once."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way = self.at_once = 0

    async def step(self, name: str, path: str, after: bool) -> None:
        if name == "commit" and not after:
            self.under_way += 1
            self.at_once = max(self.at_once, self.under_way)
            for _ in range(3):
                await asyncio.sleep(0)
            self.under_way -= 1


def breadth_at(pace_s: float, others_s: float) -> int:
    """The breadth for a store that is quick a quarter of the time."""
    breadth = Breadth(MOST)
    for number in range(SAMPLE):
        breadth.note(FLUSHED, others_s if number % 4 else pace_s)
    return breadth.wanted


def test_a_store_that_nobody_knows_gets_all() -> None:
    breadth = Breadth(MOST)
    breadth.note(FLUSHED, 0.0001)
    assert breadth.wanted == MOST


def test_a_quick_store_gets_few_at_once_and_a_slow_one_all() -> None:
    assert breadth_at(0.0004, 0.02) == LEAST
    assert breadth_at(0.0025, 0.02) == 5
    assert breadth_at(0.01, 0.02) == MOST


def test_a_store_that_becomes_slow_gets_more() -> None:
    breadth = Breadth(MOST)
    for pace_s, wanted in ((0.0004, LEAST), (0.01, MOST), (0.0004, LEAST)):
        for _ in range(SAMPLE):
            breadth.note(FLUSHED, pace_s)
        assert breadth.wanted == wanted


def test_the_slower_of_the_durabilities_in_use_decides() -> None:
    breadth = Breadth(MOST)
    for _ in range(SAMPLE):
        breadth.note(FLUSHED, 0.0004)
        breadth.note(SYNCED, 0.01)
    assert breadth.wanted == MOST
    breadth.note(SYNCED, 0.01)
    for _ in range(SAMPLE):
        breadth.note(FLUSHED, 0.0004)
    assert breadth.wanted == MOST
    for _ in range(SAMPLE):
        breadth.note(FLUSHED, 0.0004)
    assert breadth.wanted == LEAST


def test_one_lane_stays_one() -> None:
    breadth = Breadth(1)
    for _ in range(SAMPLE):
        breadth.note(FLUSHED, 0.01)
    assert breadth.wanted == 1


async def test_busy_partitions_of_a_quick_store_share_few_lanes() -> None:
    steps, storage = CountingSteps(), MemoryStorage()
    bed = await open_bed(storage, files=FaultyFiles(storage, steps), limits=LIMITS)
    answers = [Answers() for _ in range(MOST)]
    for number in range(MOST):
        assert await put(bed.log(number), b"first") == 0
    rounds = 0

    async def load(blocks: int) -> None:
        nonlocal rounds
        rounds += blocks
        for _ in range(blocks):
            for number, told in enumerate(answers):
                bed.log(number).append(block(b"x"), told)
            await asyncio.sleep(0)

    breadth = bed.store._context.lanes.breadth
    breadth.wanted = MOST
    await load(20)
    assert steps.at_once == MOST
    breadth.wanted = LEAST  # while every partition has more to write, so that none leaves its lane
    await load(20)
    steps.at_once = 0
    await load(20)
    assert steps.at_once <= LEAST
    await until(lambda: all(len(told.got) >= rounds for told in answers))
    assert bed.store._context.lanes.count() <= LEAST
    assert bed.store.counters.stalls == 0
    for told in answers:
        assert told.bases == list(range(1, rounds + 1))
    await bed.store.close()

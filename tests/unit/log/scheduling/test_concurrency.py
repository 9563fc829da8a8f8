"""How many commits are under way at once follows the pace of the store."""

import asyncio

from tests.unit.log.bed import Answers, block, open_bed, put, until
from tests.unit.log.faults import FaultyFiles, Steps

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.scheduling.concurrency import COMMITS_MIN, SAMPLE, CommitConcurrency
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


def concurrency_at(pace_s: float, others_s: float) -> int:
    """The concurrency for a store that is quick a quarter of the time."""
    concurrency = CommitConcurrency(MOST)
    for number in range(SAMPLE):
        concurrency.note(FLUSHED, others_s if number % 4 else pace_s)
    return concurrency.wanted


def test_an_unmeasured_store_gets_full_concurrency() -> None:
    concurrency = CommitConcurrency(MOST)
    concurrency.note(FLUSHED, 0.0001)
    assert concurrency.wanted == MOST


def test_a_quick_store_gets_few_at_once_and_a_slow_one_all() -> None:
    assert concurrency_at(0.0004, 0.02) == COMMITS_MIN
    assert concurrency_at(0.0025, 0.02) == 5
    assert concurrency_at(0.01, 0.02) == MOST


def test_a_store_that_becomes_slow_gets_more() -> None:
    concurrency = CommitConcurrency(MOST)
    for pace_s, wanted in ((0.0004, COMMITS_MIN), (0.01, MOST), (0.0004, COMMITS_MIN)):
        for _ in range(SAMPLE):
            concurrency.note(FLUSHED, pace_s)
        assert concurrency.wanted == wanted


def test_the_slower_of_the_durabilities_in_use_decides() -> None:
    concurrency = CommitConcurrency(MOST)
    for _ in range(SAMPLE):
        concurrency.note(FLUSHED, 0.0004)
        concurrency.note(SYNCED, 0.01)
    assert concurrency.wanted == MOST
    concurrency.note(SYNCED, 0.01)
    for _ in range(SAMPLE):
        concurrency.note(FLUSHED, 0.0004)
    assert concurrency.wanted == MOST
    for _ in range(SAMPLE):
        concurrency.note(FLUSHED, 0.0004)
    assert concurrency.wanted == COMMITS_MIN


def test_one_lane_stays_one() -> None:
    concurrency = CommitConcurrency(1)
    for _ in range(SAMPLE):
        concurrency.note(FLUSHED, 0.01)
    assert concurrency.wanted == 1


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
            for number, waiter in enumerate(answers):
                bed.log(number).append(block(b"x"), waiter)
            await asyncio.sleep(0)

    concurrency = bed.store._context.lanes.concurrency
    concurrency.wanted = MOST
    await load(20)
    assert steps.at_once == MOST
    # While every partition has more to write, so that none leaves its lane.
    concurrency.wanted = COMMITS_MIN
    await load(20)
    steps.at_once = 0
    await load(20)
    assert steps.at_once <= COMMITS_MIN
    await until(lambda: all(len(waiter.got) >= rounds for waiter in answers))
    assert bed.store._context.lanes.count() <= COMMITS_MIN
    assert bed.store.counters.stalls == 0
    for waiter in answers:
        assert waiter.bases == list(range(1, rounds + 1))
    await bed.store.close()

"""CommitLanes: a partition that hangs slows no other; order is kept."""

import asyncio

import pytest
from tests.unit.log.bed import Answers, Bed, block, crash, open_bed, put, until
from tests.unit.log.faults import FaultyFiles, FaultyMeta, Steps

from opentalos.adapters.memory import MemoryStorage
from opentalos.model.limits import LogLimits

LIMITS = LogLimits(lanes=2, lanes_max=4, lane_stall_ms=5, space_reserve_bytes=0, close_s=0.05)


class Hang:
    """Holds the commits of some partitions until it is released."""

    def __init__(self, partitions: set[int]) -> None:
        self.partitions, self.released = partitions, asyncio.Event()

    def holds(self, path: str) -> bool:
        return int(path.split("/")[1]) in self.partitions


class HangingSteps(Steps):
    def __init__(self, hang: Hang) -> None:
        super().__init__()
        self.hang = hang

    async def step(self, name: str, path: str, after: bool) -> None:
        if name == "commit" and not after and self.hang.holds(path):
            await self.hang.released.wait()


async def hanging_bed(hang: Hang, partitions: int) -> Bed:
    """A bed with open partitions, whose commits hang from now on."""
    storage, steps = MemoryStorage(), HangingSteps(hang)
    bed = await open_bed(
        storage, files=FaultyFiles(storage, steps), meta=FaultyMeta(storage, steps), limits=LIMITS
    )
    hanging, hang.partitions = hang.partitions, set()
    for partition in range(partitions):
        assert await put(bed.log(partition), b"first") == 0
    bed.store.counters.stalls = 0
    hang.partitions = hanging
    return bed


async def test_partitions_that_only_wait_leave_a_stalled_lane() -> None:
    hang = Hang({0, 1})
    bed = await hanging_bed(hang, 6)
    stuck, fine = Answers(), Answers()
    for partition in range(6):
        bed.log(partition).append(block(b"x"), stuck if partition in (0, 1) else fine)
    await until(lambda: len(fine.got) >= 4)
    assert not stuck.got
    assert bed.store.counters.stalls == 2
    for _ in range(20):
        assert await asyncio.wait_for(put(bed.log(4), b"y"), 1) > 0
    bed.log(0).append(block(b"z"), stuck)
    hang.released.set()
    await until(lambda: len(stuck.got) >= 3)
    assert sorted(stuck.bases) == [1, 1, 2]
    await asyncio.sleep(0)
    assert bed.store._context.lanes.count() <= LIMITS.lanes
    await bed.store.close()


@pytest.mark.real_time  # its commits cost no virtual time, so it would never end
async def test_a_partition_that_was_slow_once_shares_lanes_again() -> None:
    hang = Hang({0, 1})
    bed = await hanging_bed(hang, 4)
    answers, refill = Answers(), True

    def again(base: int, error: object) -> None:
        """Each partition has more to write whenever a group is answered."""
        answers(base, None)
        if refill:
            bed.log(len(answers.got) % 4).append(block(b"x"), again)

    for partition in range(4):
        for _ in range(4):
            bed.log(partition).append(block(b"x"), again)
    await until(lambda: bed.store.counters.stalls >= 2)
    hang.released.set()
    try:
        await until(lambda: bed.store._context.lanes.count() <= LIMITS.lanes)
    finally:
        refill = False
    await until(lambda: bed.store._context.pending_bytes == 0)
    await bed.store.close()


async def test_lanes_are_bounded_and_all_recover_when_storage_does() -> None:
    hang = Hang(set(range(8)))
    bed = await hanging_bed(hang, 10)
    answers = Answers()
    for partition in range(10):
        bed.log(partition).append(block(b"x"), answers)
    await until(lambda: bed.store.counters.stalls >= LIMITS.lanes_max)
    assert bed.store._context.lanes.count() == LIMITS.lanes_max
    bed.log(9).append(block(b"y"), answers)
    hang.released.set()
    await until(lambda: len(answers.got) >= 11)
    assert len(answers.bases) == 11
    assert bed.store._context.pending_bytes == 0
    assert all(lane.pending_bytes == 0 for lane in bed.store._context.lanes.active)
    await bed.store.close()


async def test_openings_that_hang_keep_no_lane() -> None:
    hang = Hang(set(range(20)))
    storage, steps = MemoryStorage(), HangingSteps(hang)
    bed = await open_bed(storage, files=FaultyFiles(storage, steps), limits=LIMITS)
    stuck = Answers()
    for partition in range(20):
        bed.log(partition).append(block(b"x"), stuck)
    assert await asyncio.wait_for(put(bed.log(20), b"y"), 1) == 0
    assert bed.store.counters.stalls == 0
    assert not stuck.got
    hang.released.set()
    await until(lambda: len(stuck.got) == 20)
    assert not stuck.errors
    await bed.store.close()


async def test_order_within_a_partition_is_the_order_of_append() -> None:
    bed = await open_bed(limits=LIMITS)
    answers = [Answers() for _ in range(5)]
    for number in range(200):
        for partition in range(5):
            bed.log(partition).append(block(b"%d" % number), answers[partition])
        if number % 17 == 0:
            await asyncio.sleep(0)
    await until(lambda: all(len(answer.got) >= 200 for answer in answers))
    for answer in answers:
        assert answer.bases == list(range(200))
    await bed.store.close()


async def test_without_group_commit_every_block_is_its_own_commit() -> None:
    limits = LogLimits(group_commit=False, space_reserve_bytes=0)
    bed, answers = await open_bed(limits=limits), Answers()
    for _ in range(10):
        bed.log().append(block(b"x"), answers)
    await until(lambda: len(answers.got) >= 10)
    assert bed.store.counters.commits == 10
    await bed.store.close()


async def test_a_group_takes_all_that_queued_within_its_bounds() -> None:
    limits = LogLimits(group_blocks_max=50, space_reserve_bytes=0)
    bed, answers = await open_bed(limits=limits), Answers()
    for _ in range(120):
        bed.log().append(block(b"x"), answers)
    await until(lambda: len(answers.got) >= 120)
    assert bed.store.counters.commits == 3
    await bed.store.close()


async def test_a_crashed_store_leaves_no_task_behind() -> None:
    bed = await open_bed(limits=LIMITS)
    await put(bed.log(), b"x")
    await crash(bed)
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not {name for name in names if name.startswith("log-")}

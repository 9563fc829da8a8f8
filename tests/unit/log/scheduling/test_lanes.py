"""CommitLanes: a partition that hangs slows no other; order is kept."""

import asyncio

import pytest
from tests.unit.log.bed import Answers, Bed, block, crash, open_bed, put, until
from tests.unit.log.faults import FaultyFiles, FaultyMeta, Steps

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.counters import LogCounters
from opentalos.log.results import TopicLogSettings
from opentalos.log.scheduling.lanes import DONE, CommitLane, CommitLanes
from opentalos.log.scheduling.shares import Share
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability
from opentalos.testing.simulation.loop import SimulationLoop

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
    hang = Hang(set())
    bed = await hanging_bed(hang, 0)
    logs = []
    for number in range(10):  # each tenant may have one lane stalled, whatever the others have
        topic = TopicLogSettings(f"t{number}", Durability.SYNCED, 86_400.0, tenant=f"{number}")
        logs.append(bed.store.partition(topic, number))
        assert await put(logs[number], b"first") == 0
    bed.store.counters.stalls = 0
    hang.partitions = set(range(8))
    answers = Answers()
    for log in logs:
        log.append(block(b"x"), answers)
    await until(lambda: bed.store.counters.stalls >= LIMITS.lanes_max)
    assert bed.store._context.lanes.count() == LIMITS.lanes_max
    logs[9].append(block(b"y"), answers)
    hang.released.set()
    await until(lambda: len(answers.got) >= 11)
    assert len(answers.bases) == 11
    assert bed.store._context.pending_bytes == 0
    assert all(lane.pending_bytes == 0 for lane in bed.store._context.lanes.active)
    await bed.store.close()


class FakeWorker:
    """A partition whose step takes as long as its event says."""

    def __init__(self, tenant: Share, topic: Share) -> None:
        self.tenant, self.topic = tenant, topic
        self.lane: CommitLane | None = None
        self.pending_bytes = 0
        self.ended = asyncio.Event()
        self.steps = 0

    def join(self) -> bool:
        return False

    async def work(self) -> float:
        self.steps += 1
        await self.ended.wait()
        return DONE

    def work_failed(self, error: BaseException) -> None:
        raise error

    def watch(self, now_s: float) -> None:
        """Nobody waits for it."""


class Watched(FakeWorker):
    """Counts the looks at it."""

    looks = 0
    raises = False

    def watch(self, now_s: float) -> None:
        self.looks += 1
        if self.raises:
            raise RuntimeError("a defect")


async def test_an_error_in_a_look_does_not_end_the_looks_at_all_others() -> None:
    lanes = CommitLanes(LogLimits(lane_stall_ms=5), LogCounters())
    errors: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    workers = [Watched(Share(f"tenant {n}"), Share("topic")) for n in range(4)]
    workers[1].raises = True
    for worker in workers:
        lanes.submit(worker)
    await asyncio.sleep(2)
    assert all(worker.looks >= 6 for worker in workers)
    assert len(errors) == workers[1].looks
    for worker in workers:
        worker.ended.set()
    await lanes.close()


async def test_a_loop_that_is_always_late_still_looks() -> None:
    lanes = CommitLanes(LogLimits(lane_stall_ms=5), LogCounters())
    loop, worker = asyncio.get_running_loop(), Watched(Share("tenant"), Share("topic"))
    assert isinstance(loop, SimulationLoop)
    lanes.submit(worker)
    for _ in range(20):
        await asyncio.sleep(0)
        loop._virtual.now_s += 0.5
    await asyncio.sleep(0)
    assert 5 <= worker.looks <= 11
    worker.ended.set()
    await lanes.close()


async def test_a_slow_step_in_a_lane_of_its_own_is_noted_as_well() -> None:
    lanes = CommitLanes(LogLimits(lane_stall_ms=5), LogCounters())
    tenant = Share("tenant a")
    workers = [FakeWorker(tenant, Share("topic")) for _ in range(4)]
    for worker in workers:
        lanes.submit(worker)
        await asyncio.sleep(0.1)
    assert tenant.hanging == 4
    for worker in workers[:2]:
        worker.ended.set()
    await asyncio.sleep(0.1)
    assert tenant.hanging == 2  # so the next one still gets a lane of its own
    for worker in workers[2:]:
        worker.ended.set()
    await asyncio.sleep(0.1)
    assert (tenant.hanging, tenant.lanes, lanes.stalled()) == (0, 0, 0)
    await lanes.close()


async def test_a_step_costs_no_look_at_every_partition_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lanes = CommitLanes(LogLimits(lane_stall_ms=5), LogCounters())
    tenant, topic = Share("tenant a"), Share("topic")
    workers = [FakeWorker(tenant, topic) for _ in range(1_000)]
    submitted = 0
    real = lanes.submit

    def submit(worker: FakeWorker) -> None:
        nonlocal submitted
        submitted += 1
        real(worker)

    monkeypatch.setattr(lanes, "submit", submit)
    for worker in workers[:2]:
        lanes.submit(worker)
        await asyncio.sleep(0.1)
    assert tenant.hanging == 2
    for worker in workers[2:]:
        worker.ended.set()
        lanes.submit(worker)
    await asyncio.sleep(0.1)
    assert all(worker.steps == 1 for worker in workers)
    assert submitted <= 3 * len(workers)  # each waits once
    for worker in workers[:2]:
        worker.ended.set()
    await asyncio.sleep(0.1)
    assert (tenant.hanging, tenant.lanes, lanes.depth()) == (0, 0, 0)
    await lanes.close()


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

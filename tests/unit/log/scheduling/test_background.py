"""BackgroundTasks: who may have how many steps and tasks under way."""

import asyncio

from opentalos.log.counters import LogCounters
from opentalos.log.scheduling.background import AT_ONCE_MAX, BackgroundTasks
from opentalos.log.scheduling.lanes import CommitLane, CommitLanes
from opentalos.log.scheduling.shares import Share
from opentalos.model.limits import LogLimits


class Partition:
    """A partition whose steps run in the background."""

    def __init__(self, tenant: Share, topic: Share) -> None:
        self.tenant, self.topic = tenant, topic
        self.lane: CommitLane | None = None
        self.pending_bytes = 0
        self.ended = asyncio.Event()
        self.began = False

    def join(self) -> bool:
        return False

    async def work(self) -> float:
        raise NotImplementedError

    def work_failed(self, error: BaseException) -> None:
        raise error

    def watch(self, now_s: float) -> None:
        """Nobody waits for it."""

    async def step(self) -> float:
        self.began = True
        await self.ended.wait()
        return 0.0


def background() -> BackgroundTasks:
    return BackgroundTasks(CommitLanes(LogLimits(), LogCounters()))


async def test_hanging_tasks_of_no_partition_leave_room_for_openings() -> None:
    tasks, released = background(), asyncio.Event()
    ended: list[int] = []

    async def close() -> None:
        await released.wait()
        ended.append(1)

    for _ in range(2 * AT_ONCE_MAX):
        tasks.start(close)
    opening = Partition(Share("tenant a"), Share("topic"))
    tasks.start_step(opening, opening.step)
    await asyncio.sleep(0)
    assert opening.began
    opening.ended.set()
    released.set()
    await tasks.drain()
    assert len(ended) == 2 * AT_ONCE_MAX
    await tasks.close()

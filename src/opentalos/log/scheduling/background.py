"""Background tasks: steps that wait for storage much longer than a commit run beside the lanes.

The writer starts its openings and jobs here, segments their side indexes. Openings, seals and other
upkeep of many partitions then wait at the same time, and no lane waits with them. A partition
whose step runs here keeps its lane but has no turn there, so its order stays.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from opentalos.log.scheduling.lanes import CommitLanes, Worker
from opentalos.log.scheduling.shares import Share
from opentalos.log.scheduling.waiting import Waiting

_log = logging.getLogger(__name__)

AT_ONCE_MAX = 512  # steps under way; a bound, so that stalled storage does not fill the memory
UNSHARED_MAX = AT_ONCE_MAX // 2  # tasks under way that no partition waits for
STEPS_MIN = 4  # steps that a tenant and a topic may always have under way

Step = Callable[[], Awaitable[float]]  # seconds until the partition may have its next turn
Work = Callable[[], Coroutine[Any, Any, None]]
BackgroundTask = Callable[[], Awaitable[None]]  # of no partition's turn; does not raise


class BackgroundTasks:
    """At most ``AT_ONCE_MAX`` steps under way; the others wait in order.

    A tenant may have as many under way as are still free, a topic half of that; those above wait
    and let others pass. Tasks that no partition waits for are in no share, so they have a bound of
    their own: closes and deletions that hang leave room for openings.
    """

    def __init__(self, lanes: CommitLanes) -> None:
        self._lanes = lanes
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._unshared = 0  # of these: of no partition
        # Bounded by the partitions: an opening, a roll or a seal starts each.
        self._waiting: Waiting[tuple[Worker, Work]] = Waiting()
        self._unshared_waiting: deque[Work] = deque()
        self._closed = False

    def start_step(self, worker: Worker, step: Step) -> None:
        """Run ``step`` for a partition whose turn ended with ``PARKED``, then resume its turns."""
        self._start(worker, partial(self._run, worker, step))

    def start(self, task: BackgroundTask) -> None:
        """Run a task that no partition has to wait for."""
        self._start(None, partial(self._run_task, task))

    async def drain(self) -> None:
        """Wait for all that was started."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Cancel every step; the caller has settled or will settle the waiters."""
        self._closed = True
        self._waiting.clear()
        self._unshared_waiting.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, worker: Worker | None, work: Work) -> None:
        if worker is None and not self._has_unshared_room():
            self._unshared_waiting.append(work)
            return
        if worker is not None and not self._has_room(worker.tenant, worker.topic):
            self._waiting.add(worker.tenant, worker.topic, (worker, work))
            return
        task = asyncio.get_running_loop().create_task(work(), name="log-background")
        self._tasks[task] = None
        if worker is None:
            self._unshared += 1
        else:
            worker.tenant.steps += 1
            worker.topic.steps += 1
        task.add_done_callback(partial(self._ended, worker))

    def _has_unshared_room(self) -> bool:
        return len(self._tasks) < AT_ONCE_MAX and self._unshared < UNSHARED_MAX

    def _has_room(self, tenant: Share, topic: Share | None) -> bool:
        free = AT_ONCE_MAX - len(self._tasks)
        if free <= 0 or tenant.steps >= max(STEPS_MIN, free):
            return False
        return topic is None or topic.steps < max(STEPS_MIN, free // 2)

    def _ended(self, worker: Worker | None, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if worker is None:
            self._unshared -= 1
        else:
            worker.tenant.steps -= 1
            worker.topic.steps -= 1
        if self._closed:
            return
        if self._unshared_waiting and self._has_unshared_room():
            self._start(None, self._unshared_waiting.popleft())
        found = self._waiting.take(self._has_room)
        if found is not None:
            self._start(*found)

    async def _run_task(self, task: BackgroundTask) -> None:
        try:
            await task()
        except Exception:
            _log.exception("a background task failed")

    async def _run(self, worker: Worker, step: Step) -> None:
        delay_s = 0.0
        try:
            delay_s = await step()
        except Exception as error:
            _log.exception("a partition's step failed")
            worker.work_failed(error)
        if delay_s > 0:
            asyncio.get_running_loop().call_later(delay_s, self._lanes.resume, worker)
        else:
            self._lanes.resume(worker)

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

_log = logging.getLogger(__name__)

AT_ONCE_MAX = 512  # steps under way; a bound, so that stalled storage does not fill the memory

Step = Callable[[], Awaitable[float]]  # seconds until the partition may have its next turn
BackgroundTask = Callable[[], Awaitable[None]]  # of no partition's turn; does not raise


class BackgroundTasks:
    """At most ``AT_ONCE_MAX`` steps under way; the others wait in order."""

    def __init__(self, lanes: CommitLanes) -> None:
        self._lanes = lanes
        self._tasks: dict[asyncio.Task[None], None] = {}
        # Bounded by the partitions: an opening, a roll or a seal starts each.
        self._waiting: deque[Callable[[], Coroutine[Any, Any, None]]] = deque()
        self._closed = False

    def start_step(self, worker: Worker, step: Step) -> None:
        """Run ``step`` for a partition whose turn ended with ``PARKED``, then resume its turns."""
        self._start(partial(self._run, worker, step))

    def start(self, task: BackgroundTask) -> None:
        """Run a task that no partition has to wait for."""
        self._start(partial(self._run_task, task))

    async def drain(self) -> None:
        """Wait for all that was started."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        """Cancel every step; the caller has settled or will settle the waiters."""
        self._closed = True
        self._waiting.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if len(self._tasks) >= AT_ONCE_MAX:
            self._waiting.append(work)
            return
        task = asyncio.get_running_loop().create_task(work(), name="log-background")
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if self._waiting and not self._closed:
            self._start(self._waiting.popleft())

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

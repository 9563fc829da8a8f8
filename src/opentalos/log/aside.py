"""Aside: steps that wait for storage much longer than a commit run beside the lanes.

Openings, seals and other upkeep of many partitions then wait at the same time, and no lane waits
with them. A partition whose step runs here keeps its lane but has no turn there, so its order
stays.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from opentalos.log.lanes import Lanes, Worker

_log = logging.getLogger(__name__)

AT_ONCE_MAX = 128  # steps under way; 250 recoveries of a second each take two of them

Step = Callable[[], Awaitable[float]]  # seconds until the partition may have its next turn


class Aside:
    """At most ``AT_ONCE_MAX`` steps under way; the others wait in order."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._waiting: deque[tuple[Worker, Step]] = deque()  # bounded by partitions
        self._closed = False

    def start(self, worker: Worker, step: Step) -> None:
        """Run ``step`` for a partition whose turn ends with ``PARKED``; then it has its turn."""
        if len(self._tasks) < AT_ONCE_MAX:
            self._begin(worker, step)
        else:
            self._waiting.append((worker, step))

    async def close(self) -> None:
        """Cancel every step; the caller has settled or will settle the waiters."""
        self._closed = True
        self._waiting.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, worker: Worker, step: Step) -> None:
        task = asyncio.get_running_loop().create_task(self._run(worker, step), name="log-aside")
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if self._waiting and not self._closed:
            self._begin(*self._waiting.popleft())

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

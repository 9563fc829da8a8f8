"""Commit lanes: the few tasks that await storage for many partitions.

``PutQueue`` submits a partition that has work; a lane calls its ``work`` step by step. A stalled
store call delays only its own partition: a step that takes longer than ``lane_stall_ms`` retires
its lane to that one partition until a step is quick again, and the partitions that wait there
move to other lanes. There are as many lanes as ``CommitConcurrency`` asks for, ``lanes`` at most.

A partition with pending work keeps its lane, which keeps its order (promise I3); an idle one goes
to the lane with the fewest pending bytes.
"""

import asyncio
import logging
import math
from collections import deque
from typing import Protocol

from opentalos.log.counters import LogCounters
from opentalos.log.scheduling.concurrency import CommitConcurrency
from opentalos.model.limits import LogLimits

_log = logging.getLogger(__name__)

DONE = -1.0  # a step's answer: no work is left
PARKED = math.inf  # a step's answer: the next turn comes with ``resume``
_MS_PER_S = 1_000


class Worker(Protocol):
    """A partition, as lanes see it."""

    lane: "CommitLane | None"
    pending_bytes: int

    async def work(self) -> float:
        """One step; seconds until the next may be taken, ``DONE`` or ``PARKED``. Never raises."""
        ...

    def work_failed(self, error: BaseException) -> None:
        """A step raised all the same: settle every waiter."""
        ...


class CommitLane:
    """One task and the partitions that wait for it."""

    __slots__ = (
        "busy",
        "delayed",
        "pending_bytes",
        "ready",
        "retired",
        "started_s",
        "task",
        "wakeup",
    )

    def __init__(self) -> None:
        self.ready: deque[Worker] = deque()
        self.pending_bytes = 0  # of the partitions that have this lane
        self.busy: Worker | None = None
        self.delayed = 0  # partitions that wait for their next attempt or are parked
        self.started_s = 0.0  # loop time at which the step under way began
        self.retired = False
        self.wakeup: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None

    def push(self, worker: Worker) -> None:
        """Give ``worker`` its turn after those that wait."""
        self.ready.append(worker)
        if self.wakeup is not None and not self.wakeup.done():
            self.wakeup.set_result(None)


class CommitLanes:
    """All lanes of a server; grows to ``lanes_max`` while lanes are stalled.

    A lane is active (serves any partition), retired (serves only the partitions whose steps are
    slow) or ended. Only this class changes lanes, and ``lane`` of a worker: the worker keeps its
    lane from ``submit`` until ``work`` answers ``DONE``. A step that raises settles its waiters
    through ``work_failed``; the lane continues.
    """

    def __init__(self, limits: LogLimits, counters: LogCounters) -> None:
        self._limits, self._counters = limits, counters
        self._stall_s = limits.lane_stall_ms / _MS_PER_S
        self.active: list[CommitLane] = []
        self._retired: dict[CommitLane, None] = {}  # ordered, so that runs are repeatable
        self._waiting: deque[Worker] = deque()  # every lane is retired; bounded by partitions
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.concurrency = CommitConcurrency(limits.lanes)

    def submit(self, worker: Worker) -> None:
        """Give an idle partition a lane; it keeps the lane until ``work`` answers ``DONE``."""
        lane = self._choose()
        if lane is None:
            # The worker must not be submitted twice, so it gets a lane without a task.
            worker.lane = CommitLane()
            self._waiting.append(worker)
            return
        worker.lane = lane
        lane.pending_bytes += worker.pending_bytes
        lane.push(worker)

    def resume(self, worker: Worker) -> None:
        """Give a parked partition its turn again."""
        if worker.lane is not None:
            self._again(worker.lane, worker)

    def count(self) -> int:
        """Lanes that exist now."""
        return len(self.active) + len(self._retired)

    def depth(self) -> int:
        """Partitions that wait for a lane's turn, or have it."""
        lanes = (*self.active, *self._retired)
        waiting = sum(len(lane.ready) + (lane.busy is not None) for lane in lanes)
        return waiting + len(self._waiting)

    def stalled(self) -> int:
        """Lanes that a slow step keeps for itself."""
        return len(self._retired)

    async def close(self) -> None:
        """Cancel every lane; the caller has settled or will settle the waiters."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = [lane.task for lane in (*self.active, *self._retired) if lane.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.active.clear()
        self._retired.clear()

    def _choose(self) -> CommitLane | None:
        best: CommitLane | None = None
        for lane in self.active:
            if best is None or lane.pending_bytes < best.pending_bytes:
                best = lane
        if best is not None and (best.pending_bytes == 0 and best.busy is None):
            return best
        return self._fresh() or best

    def _fresh(self) -> CommitLane | None:
        if len(self.active) >= self.concurrency.wanted or self.count() >= self._limits.lanes_max:
            return None
        lane = CommitLane()
        lane.task = asyncio.get_running_loop().create_task(self._run(lane), name="log-lane")
        self.active.append(lane)
        return lane

    async def _run(self, lane: CommitLane) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while lane.ready:
                worker = lane.ready.popleft()
                lane.busy, lane.started_s = worker, loop.time()
                if self._timer is None:
                    self._arm(self._stall_s)
                try:
                    delay_s = await worker.work()
                except Exception as error:
                    _log.exception("a partition's step failed")
                    worker.work_failed(error)
                    delay_s = DONE
                lane.busy = None
                self._after(lane, worker, delay_s)
                if not lane.retired:
                    if len(self.active) > self.concurrency.wanted:
                        self._retire(lane)
                elif loop.time() < lane.started_s + self._stall_s:
                    self._disperse(lane)  # quick again, so it needs no lane of its own
            if lane.retired and not lane.delayed and self._rejoined(lane):
                return
            if lane.ready:
                continue
            lane.wakeup = loop.create_future()
            await lane.wakeup
            lane.wakeup = None

    def _after(self, lane: CommitLane, worker: Worker, delay_s: float) -> None:
        if delay_s == 0:
            lane.ready.append(worker)
        elif delay_s < 0:
            worker.lane = None
            lane.pending_bytes -= worker.pending_bytes
        else:
            lane.delayed += 1
            if delay_s == PARKED:
                return
            asyncio.get_running_loop().call_later(delay_s, self._again, lane, worker)

    def _again(self, lane: CommitLane, worker: Worker) -> None:
        lane.delayed -= 1
        if not self._closed:
            lane.push(worker)

    def _rejoined(self, lane: CommitLane) -> bool:
        """A retired lane has nothing left: it becomes active again, or ends (True)."""
        del self._retired[lane]
        lane.retired = False
        ends = len(self.active) >= self.concurrency.wanted
        if not ends:
            self.active.append(lane)
        while self._waiting:
            self.submit(self._waiting.popleft())
        return ends

    def _arm(self, delay_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._look)

    def _look(self) -> None:
        """Retire the lanes whose current step takes too long."""
        self._timer = None
        now_s = asyncio.get_running_loop().time()
        next_s: float | None = None
        for lane in list(self.active):
            if lane.busy is None:
                continue
            left_s = lane.started_s + self._stall_s - now_s
            if left_s <= 0:
                self._counters.stalls += 1
                self._retire(lane)
            elif next_s is None or left_s < next_s:
                next_s = left_s
        if next_s is not None:
            self._arm(next_s)

    def _retire(self, lane: CommitLane) -> None:
        self.active.remove(lane)
        self._retired[lane] = None
        lane.retired = True
        self._disperse(lane)

    def _disperse(self, lane: CommitLane) -> None:
        """Move the partitions that wait there to other lanes."""
        moving, lane.ready = lane.ready, deque()
        for worker in moving:
            lane.pending_bytes -= worker.pending_bytes
            self.submit(worker)

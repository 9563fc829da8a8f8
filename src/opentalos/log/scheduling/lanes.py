"""Commit lanes: the few tasks that await storage for many partitions.

``PutQueue`` submits a partition that has work; a lane calls its ``work`` step by step. A stalled
store call delays only its own partition: a step that takes longer than ``lane_stall_ms`` retires
its lane to that one partition until a step is quick again, and the partitions that wait there
move to other lanes. There are as many lanes as ``CommitConcurrency`` asks for, ``lanes`` at most.

A partition with pending work keeps its lane, which keeps its order (promise I3); an idle one goes
to the lane with the fewest pending bytes.

A partition whose next group a frame of the journal takes needs no lane: it has *joined*.

A tenant may have as many lanes stalled as are still free, a topic half of that. A partition of a
tenant or topic that has its share stalled waits for one of these; no other partition does.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from opentalos.log.counters import LogCounters
from opentalos.log.scheduling.concurrency import CommitConcurrency
from opentalos.log.scheduling.shares import Share
from opentalos.log.scheduling.turns import Turns
from opentalos.log.scheduling.waiting import Waiting
from opentalos.model.limits import LogLimits

_log = logging.getLogger(__name__)

GIVEN_UP_MAX = 128  # steps that the store may leave unanswered; each has a task and a thread
LANES_MIN = 1  # lanes that a tenant and a topic may always keep
HANGING_MIN = 2  # slow steps at once from which on a tenant's partitions wait for no other's
DONE = -1.0  # a step's answer: no work is left
PARKED = math.inf  # a step's answer: the next turn comes with ``resume``
WATCH_S = 0.25  # at most, between two looks at a partition that waits or is served
# Parts of a round of looks. What hangs together is then not answered and opened again at once:
# 640 answers in one turn of the loop would keep all others waiting for 20 ms.
WATCH_PARTS = 24
_MS_PER_S = 1_000


class Worker(Protocol):
    """A partition, as lanes see it."""

    lane: "CommitLane | None"
    pending_bytes: int

    @property
    def tenant(self) -> Share: ...
    @property
    def topic(self) -> Share: ...

    def join(self) -> bool:
        """Whether a commit of many partitions takes the next step; ``step_ended`` follows then."""
        ...

    async def work(self) -> float:
        """One step; seconds until the next may be taken, ``DONE`` or ``PARKED``. Never raises."""
        ...

    def work_failed(self, error: BaseException) -> None:
        """A step raised all the same: settle every waiter."""
        ...

    def watch(self, now_s: float) -> None:
        """Called once in ``WATCH_S`` while it has a lane: whoever waits too long is answered."""
        ...


class CommitLane:
    """One task and the partitions that wait for it."""

    __slots__ = (
        "busy",
        "delayed",
        "holder",
        "pending_bytes",
        "ready",
        "retired",
        "slow",
        "started_s",
        "task",
        "wakeup",
    )

    def __init__(self) -> None:
        self.ready: deque[Worker] = deque()
        self.pending_bytes = 0  # of the partitions that have this lane
        self.busy: Worker | None = None
        # Partitions that wait for their next attempt or are parked.
        self.delayed: dict[Worker, None] = {}
        self.holder: Worker | None = None  # whose tenant and topic have this lane, if retired
        self.slow: Worker | None = None  # whose step there takes too long
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

    def __init__(
        self,
        limits: LogLimits,
        counters: LogCounters,
        concurrency: CommitConcurrency | None = None,
    ) -> None:
        self._limits, self._counters = limits, counters
        self.stall_s = limits.lane_stall_ms / _MS_PER_S  # a longer step is stalled
        self.turns = Turns()  # in which groups are answered whose commits stalled
        self.active: list[CommitLane] = []
        self._retired: dict[CommitLane, None] = {}  # ordered, so that runs are repeatable
        self._parked: dict[Worker, None] = {}  # without a lane that has a task
        self._joined: dict[Worker, None] = {}  # these share a lane without a task
        self._no_lane = CommitLane()
        self._given_up: dict[CommitLane, Worker] = {}  # with the partition that left it
        # Every lane is retired, or the share is stalled; bounded by partitions.
        self._waiting: Waiting[Worker] = Waiting()
        self._timer: asyncio.TimerHandle | None = None
        self._watch_timer: asyncio.TimerHandle | None = None
        self._unwatched: list[list[Worker]] = []  # parts of this round, the next one last
        self._watched_late = False  # the last look was not made, since it came too late
        self._closed = False
        self.concurrency = concurrency or CommitConcurrency(limits.lanes)

    def submit(self, worker: Worker) -> None:
        """Give an idle partition a lane; it keeps the lane until ``work`` answers ``DONE``."""
        if self._watch_timer is None:
            self._arm_watch(1)
        if worker.join():
            worker.lane = self._no_lane
            self._joined[worker] = None
        else:
            self._submit_to_lane(worker)

    def step_ended(self, worker: Worker, delay_s: float, *, alone: bool = False) -> None:
        """The step of a partition that had joined has ended; see ``work`` for ``delay_s``.

        ``alone``: a lane is to take the next one.
        """
        self._joined.pop(worker, None)
        if self._closed:
            return
        if delay_s < 0:
            worker.lane = None
        elif delay_s > 0:
            worker.lane = CommitLane()
            self._parked[worker] = None
            if delay_s != PARKED:
                asyncio.get_running_loop().call_later(delay_s, self.resume, worker)
        elif alone:
            self._submit_to_lane(worker)
        else:
            self.submit(worker)

    def _submit_to_lane(self, worker: Worker) -> None:
        if worker.tenant.hanging < HANGING_MIN:
            lane = self._choose()
        else:  # no other tenant waits behind it
            may_stall = self._may_have_lane(worker.tenant, worker.topic)
            lane = self._of_its_own(worker) if may_stall else None
        if lane is None:
            # The worker must not be submitted twice, so it gets a lane without a task.
            worker.lane = CommitLane()
            self._waiting.add(worker.tenant, worker.topic, worker)
            return
        worker.lane = lane
        lane.pending_bytes += worker.pending_bytes
        lane.push(worker)

    def resume(self, worker: Worker) -> None:
        """Give a parked partition its turn again."""
        lane = worker.lane
        if lane is None or self._closed:
            return
        if worker in self._parked:
            del self._parked[worker]
            self.submit(worker)
        else:
            lane.delayed.pop(worker, None)
            lane.push(worker)

    def may_give_up(self, worker: Worker) -> bool:
        """Whether ``worker`` is served now and its shares of steps given up leave room."""
        if worker in self._joined:  # no task and no thread of its own waits
            return True
        lane = worker.lane
        if lane is None or lane.busy is not worker:
            return False
        free = GIVEN_UP_MAX - len(self._given_up)
        return worker.tenant.given_up < free and worker.topic.given_up < max(1, free // 2)

    def step_given_up(self, worker: Worker) -> None:
        """The store does not answer the step under way: leave its lane to it, take another.

        The lane's task ends when the store answers; until then it serves nobody and is in no
        share of lanes.
        """
        lane = worker.lane
        if lane is None or not self.may_give_up(worker):
            return
        if lane is self._no_lane:
            self.step_ended(worker, 0.0)
            return
        if not lane.retired:
            self._retire(lane)
        del self._retired[lane]
        self._hold(lane, None)
        self._note_slow(lane, worker)
        self._given_up[lane] = worker
        worker.tenant.given_up += 1
        worker.topic.given_up += 1
        lane.pending_bytes -= worker.pending_bytes
        self.submit(worker)
        self._submit_waiting()

    def _end_given_up(self, lane: CommitLane) -> None:
        """The store answered a step that had been given up."""
        worker = self._given_up.pop(lane)
        self._note_slow(lane, None)
        worker.tenant.given_up -= 1
        worker.topic.given_up -= 1

    def workers(self) -> Iterator[Worker]:
        """Every partition that waits or is served."""
        for lane in (*self.active, *self._retired):
            if lane.busy is not None:
                yield lane.busy
            yield from lane.ready
            yield from lane.delayed
        yield from self._joined
        yield from self._parked
        yield from self._waiting

    def count(self) -> int:
        """Lanes that exist now."""
        return len(self.active) + len(self._retired)

    def depth(self) -> int:
        """Partitions that wait for a turn, or have it."""
        lanes = (*self.active, *self._retired)
        waiting = sum(len(lane.ready) + (lane.busy is not None) for lane in lanes)
        return waiting + len(self._waiting) + len(self._joined)

    def stalled(self) -> int:
        """Lanes that a slow step keeps for itself."""
        return len(self._retired)

    async def close(self) -> None:
        """Cancel every lane; the caller has settled or will settle the waiters."""
        self._closed = True
        for timer in (self._timer, self._watch_timer):
            if timer is not None:
                timer.cancel()
        lanes = (*self.active, *self._retired, *self._given_up)
        tasks = [lane.task for lane in lanes if lane.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.active.clear()
        self._retired.clear()
        self._given_up.clear()

    def _may_have_lane(self, tenant: Share, topic: Share | None) -> bool:
        """Whether there is a lane for a partition of theirs: any, or one of its own.

        For the second, tenant and topic have to keep less than their shares of the lanes.
        """
        free = self._limits.lanes_max - self.count()
        if tenant.hanging < HANGING_MIN:
            return bool(self.active) or free > 0
        if tenant.lanes >= max(LANES_MIN, free):
            return False
        return topic is None or topic.lanes < max(LANES_MIN, free // 2)

    def _of_its_own(self, worker: Worker) -> CommitLane:
        """A lane that serves no other partition; it ends, or serves all, after a quick step."""
        lane = self._made()
        self._retired[lane] = None
        lane.retired = True
        self._hold(lane, worker)
        return lane

    def _arm_watch(self, parts: int) -> None:
        if not self._closed:
            loop = asyncio.get_running_loop()
            due_s = loop.time() + WATCH_S / 2 / parts
            self._watch_timer = loop.call_at(due_s, self._watch, parts, due_s)

    def _watch(self, parts: int, due_s: float) -> None:
        """Look at the next part of those that wait or are served; a round takes WATCH_S / 2."""
        now_s = asyncio.get_running_loop().time()
        late, self._watched_late = self._watched_late, now_s - due_s > WATCH_S
        if self._watched_late and not late:  # the loop stood still: answers wait behind this call
            self._arm_watch(parts)
            return
        if not self._unwatched:
            workers = list(self.workers())
            parts = min(WATCH_PARTS, len(workers))
            self._unwatched = [workers[part::parts] for part in range(parts)]
        if not self._unwatched:
            self._watch_timer = None
            return
        self._arm_watch(parts)  # first, so that an error in a look does not end them all
        for worker in self._unwatched.pop():
            if worker.lane is not None:
                worker.watch(now_s)

    def _choose(self) -> CommitLane | None:
        best: CommitLane | None = None
        for lane in self.active:
            if lane.busy is None and lane.pending_bytes == 0:
                return lane
            if best is None or lane.pending_bytes < best.pending_bytes:
                best = lane
        return self._fresh() or best

    def _fresh(self) -> CommitLane | None:
        if len(self.active) >= self.concurrency.wanted or self.count() >= self._limits.lanes_max:
            return None
        lane = self._made()
        self.active.append(lane)
        return lane

    def _made(self) -> CommitLane:
        lane = CommitLane()
        lane.task = asyncio.get_running_loop().create_task(self._run(lane), name="log-lane")
        return lane

    async def _run(self, lane: CommitLane) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while lane.ready:
                worker = lane.ready.popleft()
                lane.busy, lane.started_s = worker, loop.time()
                if self._timer is None:
                    self._arm(self.stall_s)
                try:
                    delay_s = await worker.work()
                except Exception as error:
                    _log.exception("a partition's step failed")
                    if worker.lane is lane:
                        worker.work_failed(error)
                    delay_s = DONE
                lane.busy = None
                if lane in self._given_up:
                    self._end_given_up(lane)
                    return
                self._after(lane, worker, delay_s)
                if not lane.retired:
                    if len(self.active) > self.concurrency.wanted:
                        self._retire(lane)
                elif loop.time() < lane.started_s + self.stall_s:
                    self._note_slow(lane, None)
                    self._disperse(lane)  # quick again, so it needs no lane of its own
            if lane.retired and self._rejoined(lane):
                return
            if lane.ready:
                continue
            lane.wakeup = loop.create_future()
            await lane.wakeup
            lane.wakeup = None

    def _after(self, lane: CommitLane, worker: Worker, delay_s: float) -> None:
        if delay_s == 0 and worker.join():
            lane.pending_bytes -= worker.pending_bytes
            worker.lane = self._no_lane
            self._joined[worker] = None
        elif delay_s == 0:
            lane.ready.append(worker)
        elif delay_s < 0:
            worker.lane = None
            lane.pending_bytes -= worker.pending_bytes
        else:
            lane.delayed[worker] = None
            if lane.retired:
                self._park(lane)
            if delay_s != PARKED:
                asyncio.get_running_loop().call_later(delay_s, self.resume, worker)

    def _park(self, lane: CommitLane) -> None:
        """Let those who do not use a retired lane now wait outside: it is in a share, or hangs."""
        for worker in lane.delayed:
            lane.pending_bytes -= worker.pending_bytes
            worker.lane = CommitLane()
            self._parked[worker] = None
        lane.delayed.clear()

    def _rejoined(self, lane: CommitLane) -> bool:
        """A retired lane has nothing left: it becomes active again, or ends (True)."""
        del self._retired[lane]
        lane.retired = False
        self._hold(lane, None)
        self._note_slow(lane, None)
        ends = len(self.active) >= self.concurrency.wanted
        if not ends:
            self.active.append(lane)
        self._submit_waiting()
        return ends

    def _submit_waiting(self) -> None:
        """Give those that wait the lanes that are free now; the others stay where they are."""
        for _ in range(len(self._waiting)):
            worker = self._waiting.take(self._may_have_lane)
            if worker is None:
                return
            self.submit(worker)

    def _note_slow(self, lane: CommitLane, worker: Worker | None) -> None:
        """The step of ``worker`` there is slow; None: no step is."""
        if lane.slow is not None:
            lane.slow.tenant.hanging -= 1
        if worker is not None:
            worker.tenant.hanging += 1
        lane.slow = worker

    def _hold(self, lane: CommitLane, holder: Worker | None) -> None:
        """The stalled lane belongs to the shares of ``holder`` from now on."""
        for worker, change in ((lane.holder, -1), (holder, 1)):
            if worker is not None:
                worker.tenant.lanes += change
                worker.topic.lanes += change
        lane.holder = holder

    def _arm(self, delay_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._look)

    def _look(self) -> None:
        """Note the steps that take too long and retire their lanes."""
        self._timer = None
        now_s = asyncio.get_running_loop().time()
        next_s: float | None = None
        for lane in (*self.active, *self._retired):
            if lane.busy is None or (lane.retired and lane.slow is not None):
                continue
            left_s = lane.started_s + self.stall_s - now_s
            if left_s <= 0:
                self._counters.stalls += 1
                self._note_slow(lane, lane.busy)
                if not lane.retired:  # else it is its partition's own already
                    self._retire(lane)
            elif next_s is None or left_s < next_s:
                next_s = left_s
        if next_s is not None:
            self._arm(next_s)

    def _retire(self, lane: CommitLane) -> None:
        self.active.remove(lane)
        self._retired[lane] = None
        lane.retired = True
        self._hold(lane, lane.busy)
        self._park(lane)
        self._disperse(lane)

    def _disperse(self, lane: CommitLane) -> None:
        """Move the partitions that wait there to other lanes."""
        moving, lane.ready = lane.ready, deque()
        for worker in moving:
            lane.pending_bytes -= worker.pending_bytes
            self.submit(worker)

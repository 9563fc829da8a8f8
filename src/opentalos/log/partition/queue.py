"""Blocks of one partition that wait for their commit, and the jobs that wait with them.

The broker appends, through ``PartitionLog``; a commit lane takes the steps. Promise I7: every block
taken in is answered exactly once, as done, not done or unknown.
"""

import asyncio
import copy
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from opentalos.log.context import LogContext
from opentalos.log.partition.state import IllegalTransition
from opentalos.log.results import AppendWaiter
from opentalos.log.scheduling.lanes import CommitLane
from opentalos.log.segment.format import BLOCK_HEADER_BYTES, block_error
from opentalos.log.segment.writer import Group, Queued
from opentalos.model.errors import (
    BadRequest,
    ExcessivePending,
    OutcomeUnknown,
    PartitionNotServing,
    TalosError,
)
from opentalos.model.message import MessageBlock, PartitionKey

_log = logging.getLogger(__name__)

NO_BLOCKS: Final[deque[Queued]] = deque(maxlen=0)  # of partitions that nothing waits for
JOBS_MAX = 64  # upkeep steps that wait for one partition's lane

Job = Callable[[], Awaitable[None]]


def name_of(key: PartitionKey) -> str:
    """The partition as error texts name it."""
    return f"topic {key.topic_uuid} partition {key.partition}"


class PutQueue(ABC):
    """Queue, group in flight and jobs of one partition; a commit lane serves it.

    A block waits in ``queue``, moves to ``group`` when it is handed to a file, and leaves with one
    call of its waiter: by the commit of its group, by ``settle_group`` or by ``refuse_queue``.
    ``refusal_error`` is the one thing that ``append`` checks of the partition's state. It is set
    by the events that end the acceptance of puts (damage, handoff, deletion, drop) and never
    cleared: a partition that returns to this server gets a new writer.
    """

    __slots__ = (
        "_paused",
        "answered",
        "bytes_max",
        "context",
        "group",
        "jobs",
        "key",
        "lane",
        "pending_bytes",
        "queue",
        "refusal_error",
        "tenant",
        "topic",
        "uses_reserve",
    )

    def __init__(
        self, context: LogContext, key: PartitionKey, *, tenant: str, uses_reserve: bool
    ) -> None:
        self.key, self.context, self.uses_reserve = key, context, uses_reserve
        self.queue = NO_BLOCKS  # never handed to a file; an idle partition has no queue of its own
        self.group: Group | None = None  # handed to a file, outcome open
        self.pending_bytes = 0  # of both
        self.tenant = context.shares.of_tenant(tenant)
        self.topic = context.shares.of_topic(key.topic_uuid)
        self.answered = 0  # blocks that left it, whatever the answer
        self.lane: CommitLane | None = None
        self.jobs: deque[tuple[Job, asyncio.Future[None]]] | None = None
        self.refusal_error: TalosError | None = None  # why puts are refused from now on
        self.bytes_max = context.limits.pending_bytes_max  # -1 while puts are refused for a pause
        self._paused: tuple[TalosError, float] | None = None  # why, and until when in loop time

    @abstractmethod
    def join(self) -> bool:
        """Whether a frame of the journal takes the next group; see lanes.Worker."""

    @abstractmethod
    async def work(self) -> float:
        """One step; see lanes.Worker."""

    @abstractmethod
    def watch(self, now_s: float) -> None:
        """Answer whoever waits too long; see lanes.Worker."""

    def work_failed(self, error: BaseException) -> None:
        """Settle every waiter with an error; see lanes.Worker."""
        self.settle_group(OutcomeUnknown(f"{name_of(self.key)}: {error}"))
        refused = PartitionNotServing(f"{name_of(self.key)}: {error}")
        self.refuse_queue(refused)
        refuse_jobs(self, refused)

    def append(self, block: MessageBlock, waiter: AppendWaiter) -> None:
        """Queue a block; see PartitionLog."""
        context = self.context
        if context.full or context.closing or not context.started or self.refusal_error is not None:
            self._check_refusal()
        fault = block_error(block)
        if fault:
            raise BadRequest(fault)
        self._enqueue(block, waiter)

    def announce(self, block: MessageBlock, waiter: AppendWaiter) -> None:
        """Queue a zero-message block; see PartitionLog.fence_producer."""
        self._check_refusal()
        self._enqueue(block, waiter)

    def _check_refusal(self) -> None:
        refusal = self.context.refusal(self.uses_reserve) or self.refusal()
        if refusal is not None:
            raise refusal

    def refusal(self) -> TalosError | None:
        """None, or why this partition accepts no put: the error to answer, not done."""
        error = self.refusal_error
        return None if error is None else copy.copy(error)

    def _enqueue(self, block: MessageBlock, waiter: AppendWaiter) -> None:
        context, tenant, topic = self.context, self.tenant, self.topic
        size = BLOCK_HEADER_BYTES + len(block.payload) + len(block.extras)
        free_bytes = context.limits.pending_bytes_total_max - context.pending_bytes - size
        if (
            self.pending_bytes + size > self.bytes_max
            or tenant.pending_bytes + size > free_bytes
            or topic.pending_bytes + size > free_bytes >> 1
        ):
            self._check_room(size, free_bytes)
        queue = self.queue
        if queue is NO_BLOCKS:
            queue = self.queue = deque()
        queue.append((block, waiter, size))
        self.pending_bytes += size
        tenant.pending_bytes += size
        topic.pending_bytes += size
        context.pending_bytes += size
        lane = self.lane
        if lane is None:
            context.lanes.submit(self)
        else:
            lane.pending_bytes += size

    def _pause(self, error: TalosError, pause_s: float) -> None:
        """Refuse puts at once, not done, instead of queueing them for what just failed."""
        self._paused = (error, asyncio.get_running_loop().time() + pause_s)
        self.bytes_max = -1  # so that a put in the good case compares nothing more

    def _check_room(self, size: int, free_bytes: int) -> None:
        """The put is over a share or a bound, or the partition pauses: accept it or say why not.

        A tenant or topic may always have one block pending, or blocks of one group.
        Raises: ExcessivePending; what ``_pause`` was called with.
        """
        limits = self.context.limits
        if self._paused is not None:
            error, until_s = self._paused
            if asyncio.get_running_loop().time() < until_s:
                raise copy.copy(error)
            self._paused = None
            self.bytes_max = limits.pending_bytes_max
        if self.pending_bytes + size > self.bytes_max:
            raise ExcessivePending(
                f"{name_of(self.key)}: {self.pending_bytes} bytes are pending; try again later"
            )
        if free_bytes < 0:
            raise ExcessivePending(
                f"server: {self.context.pending_bytes} bytes are pending; try again later"
            )
        for share, share_bytes in ((self.tenant, free_bytes), (self.topic, free_bytes // 2)):
            bytes_max = max(share_bytes, limits.group_bytes_max)
            if share.pending_bytes and share.pending_bytes + size > bytes_max:
                self.context.counters.refused_share += 1
                raise ExcessivePending(
                    f"{share.name}: {share.pending_bytes} bytes are pending, of {bytes_max} that "
                    "it may hold now; try again later"
                )

    def _put_back(self, blocks: Iterable[Queued]) -> None:
        """Queue blocks again before all others, in order: they are not stored."""
        self.queue = deque((*blocks, *self.queue))

    def busy(self) -> bool:
        """Whether anything waits or is under way."""
        return self.lane is not None

    async def run(self, job: Job) -> None:
        """Run ``job`` in the partition's lane and wait for it.

        Raises: what the job raises; ExcessivePending: too many wait.
        """
        if self.context.closed:
            raise PartitionNotServing("the server has stopped")
        if self.jobs is None:
            self.jobs = deque()
        if len(self.jobs) >= JOBS_MAX:
            raise ExcessivePending(
                f"{name_of(self.key)}: {len(self.jobs)} jobs wait; try again later"
            )
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.jobs.append((job, future))
        if self.lane is None:
            self.context.lanes.submit(self)
        await future

    async def _run_job(self) -> None:
        """Take the next job and give its caller the outcome."""
        if not self.jobs:
            return
        job, future = self.jobs.popleft()
        if not self.jobs:
            self.jobs = None  # an empty queue takes as much memory as the rest of an idle partition
        try:
            await job()
        except IllegalTransition as error:  # nothing was changed, but nothing can be relied on
            _log.exception("%s: a step failed", name_of(self.key))
            self.work_failed(error)
            if not future.done():
                future.set_exception(PartitionNotServing(f"{name_of(self.key)}: {error}"))
        except Exception as error:
            if not isinstance(error, TalosError):
                _log.exception("%s: a step failed", name_of(self.key))
            if not future.done():
                future.set_exception(error)
        except BaseException:
            if not future.done():
                future.set_exception(PartitionNotServing("the server is stopping"))
            raise
        else:
            if not future.done():
                future.set_result(None)

    def _answer(self, waiter: AppendWaiter, base: int, error: TalosError | None) -> None:
        """Call one waiter; one that raises harms no other."""
        try:
            waiter(base, error)
        except (Exception, asyncio.CancelledError):
            self._waiter_raised()

    def _waiter_raised(self) -> None:
        """Note that a waiter raised; called while its exception is handled."""
        self.context.counters.waiter_failures += 1
        _log.exception("%s: a waiter raised", name_of(self.key))

    def release(self, count_bytes: int) -> None:
        """So many bytes are not pending any more."""
        self.pending_bytes -= count_bytes
        self.tenant.pending_bytes -= count_bytes
        self.topic.pending_bytes -= count_bytes
        self.context.pending_bytes -= count_bytes
        if self.lane is not None:
            self.lane.pending_bytes -= count_bytes

    def settle_group(self, error: TalosError) -> None:
        """Answer the group in flight: its outcome cannot be found out."""
        group, self.group = self.group, None
        if group is None:
            return
        self.release(group.pending_bytes)
        self.answered += group.blocks
        for _, waiter, _, _ in (*group.entries, *group.followers):
            self._answer(waiter, -1, error)
        for waiter, base, answer in group.answered:
            # A refusal may rest on a table that a new owner has changed, so it is only "not done".
            refused = answer and PartitionNotServing(f"{name_of(self.key)}: {error}")
            self._answer(waiter, base, refused)

    def refuse_queue(self, error: TalosError) -> None:
        """Answer the queue: nothing of it was handed to a file, so it is not done."""
        refused = list(self.queue)
        self.queue.clear()
        self.release(sum(size for _, _, size in refused))
        self.answered += len(refused)
        for _, waiter, _ in refused:
            self._answer(waiter, -1, error)


def refuse_jobs(queue: PutQueue, refused: TalosError) -> None:
    """Answer those who wait for jobs: none will run."""
    while queue.jobs:
        _, future = queue.jobs.popleft()
        if not future.done():
            future.set_exception(refused)

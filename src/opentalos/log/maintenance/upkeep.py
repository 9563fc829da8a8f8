"""Work beside puts and gets: free space, idle sealing, retention, deleting files.

``LogStore`` starts it. A pass only decides; what it starts runs as a job of the partition, one
step at a time, so changes of a manifest are serialized.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import takewhile

from opentalos.log.context import LogContext
from opentalos.log.maintenance.clock_record import ClockRecord
from opentalos.log.maintenance.merge import SegmentMerger
from opentalos.log.maintenance.retention import NOT_METERED, Retained, droppable, miscounted
from opentalos.log.maintenance.room import IDLE_S, room, surplus
from opentalos.log.maintenance.unread import UnreadPartitions
from opentalos.log.manifest.aside import sweep
from opentalos.log.partition.decisions import Due, segment_due
from opentalos.log.partition.jobs import drop, recount, seal
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.partition.queue import Job, name_of
from opentalos.log.partition.writer import PartitionWriter
from opentalos.log.results import TopicLogSettings
from opentalos.log.segment.writer import delete_if_gone
from opentalos.model.errors import PartitionNotServing, TalosError
from opentalos.model.message import PartitionKey

_log = logging.getLogger(__name__)

SPACE_INTERVAL_S = 1.0  # between two measurements of the free space while something is written
PARTITIONS_PER_STEP = 50  # partitions checked before the loop has its turn
JOBS_AT_ONCE_MAX = 200  # above it a pass waits
SWEEP_S = 3_600.0  # between sweeps of what was set aside
ROOM_JOBS_MAX = 32  # seals at once that make room; puts need the same lanes and threads
JOBS_WAIT_S = 1.0  # for one of them to end
STALLED_AFTER_S = 3.0  # a job that takes longer counts no more: its storage hangs, others' need not

Partitions = dict[PartitionKey, PartitionLog]


class Upkeep:
    """Two tasks: one watches the free space, one passes over all partitions.

    Jobs run in the partitions' lanes, at most one for each partition, and those that hang do not
    count against a pass's bounds, so they stop no pass. A failed job is logged; a later pass
    finds the same need again.
    """

    def __init__(
        self,
        context: LogContext,
        partitions: Partitions,
        former: dict[PartitionKey, PartitionWriter],
        topics: dict[str, TopicLogSettings],
    ) -> None:
        self._context, self._partitions = context, partitions
        self._former = former  # see LogStore
        self._tasks: list[asyncio.Task[None]] = []
        self._jobs: dict[asyncio.Task[None], float] = {}  # when it began, in order
        self._has_job: dict[PartitionWriter, None] = {}  # at most one job for each
        self._unread = UnreadPartitions(
            context, partitions, topics, log_of=self.log_of, start_job=self.start_job
        )
        self._room_task: asyncio.Task[None] | None = None
        self._room_count, self._room_s = 0, 0.0  # open segments, loop time: then room is sought
        self._clock_record = ClockRecord(context)
        self.merger = SegmentMerger(context)
        self._bytes_seen = -1
        self._sweep_s = 0.0  # loop time of the next sweep of what was set aside

    async def start(self) -> None:
        """Measure the space once, then keep running."""
        context, loop = self._context, asyncio.get_running_loop()
        await self._clock_record.begin()
        context.room_by(self._make_room)
        context.note_space(await context.files.space())
        self._tasks = [
            loop.create_task(self._repeat(self.measure_space, SPACE_INTERVAL_S), name="log-space"),
            loop.create_task(
                self._repeat(self.run_pass, context.limits.retention_interval_s), name="log-upkeep"
            ),
        ]

    async def close(self) -> None:
        """Stop both tasks; jobs under way continue in their lanes."""
        tasks = [*self._tasks, *self._jobs]
        if self._room_task is not None:
            tasks.append(self._room_task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def measure_space(self) -> None:
        """Measure the free space if something was written since, or if it was too little."""
        context = self._context
        doubted = context.full or context.space_doubted
        if doubted or context.counters.bytes != self._bytes_seen:
            self._bytes_seen = context.counters.bytes
            context.note_space(await context.files.space())

    async def run_pass(self) -> None:
        """One pass: load manifests of earlier runs, seal, drop, delete; only what is served."""
        for key in [key for key, writer in self._former.items() if not writer.busy()]:
            del self._former[key]
        if not self._context.guard.steady():
            return
        await self._clock_record.refresh_if_due()
        await self._unread.load_some(self._has_job)
        now_ms, loop_s = self._retention_ms(), asyncio.get_running_loop().time()
        for number, log in enumerate(list(self._partitions.values())):
            writer = log.writer
            if writer not in self._has_job and writer.served and self._is_ours(writer):
                self._maintain(writer, now_ms, loop_s)
                self.merger.offer(writer)
            if number % PARTITIONS_PER_STEP == 0:
                await self._free(JOBS_AT_ONCE_MAX)
        await self._delete_due(loop_s)
        if loop_s >= self._sweep_s:
            self._sweep_s = loop_s + SWEEP_S
            await self.sweep_aside()

    async def sweep_aside(self) -> None:
        """Delete what any server set aside for long enough. Raises: TalosError."""
        context = self._context
        now_ms = context.time.retention_ms()
        if now_ms is not None:
            await sweep(context.files, now_ms)

    def _is_ours(self, writer: PartitionWriter) -> bool:
        return self._context.guard.refusal(writer.key) is None

    async def _free(self, jobs_max: int) -> None:
        """Give way to the loop, then wait while too many jobs are under way that do not hang."""
        await asyncio.sleep(0)
        while len(young := self._young_jobs()) >= jobs_max:
            await asyncio.wait(young, timeout=JOBS_WAIT_S, return_when=asyncio.FIRST_COMPLETED)

    def _young_jobs(self) -> list[asyncio.Task[None]]:
        since_s = asyncio.get_running_loop().time() - STALLED_AFTER_S
        newest = reversed(self._jobs.items())
        return [task for task, _ in takewhile(lambda job: job[1] > since_s, newest)]

    def _maintain(self, writer: PartitionWriter, now_ms: int | None, loop_s: float) -> None:
        """Start what one partition needs; ``now_ms`` None: nothing has expired."""
        if writer.segment is not None and not writer.busy():
            if segment_due(writer, loop_s, loop_s - writer.last_put_s) is Due.SEAL:
                self.start_job(writer, partial(_seal_if_idle, writer))
                return
        if not writer.readable or writer.damage is not None:
            return
        manifest = writer.versioned.manifest
        if now_ms is not None:
            counted = miscounted(manifest, self._context.time, now_ms)
            if counted:
                self.start_job(writer, partial(recount, writer, counted))
                return
        open_bytes = writer.view.end_position if writer.view is not None else 0
        metered = NOT_METERED if writer.meter is None else writer.meter.mark.offset
        retained = Retained(now_ms, open_bytes, metered)
        count = droppable(manifest, writer.settings, retained)
        if count:
            self.start_job(writer, partial(drop, writer, count, manifest.sealed[count - 1]))

    def start_job(self, writer: PartitionWriter, job: Job) -> None:
        """Run ``job`` in the partition's lane; its failure is logged, a later pass repeats it."""
        self._has_job[writer] = None
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._run_job(writer, job), name="log-job")
        self._jobs[task] = loop.time()
        task.add_done_callback(self._job_ended)

    def _job_ended(self, task: asyncio.Task[None]) -> None:
        self._jobs.pop(task, None)

    async def _run_job(self, writer: PartitionWriter, job: Job) -> None:
        try:
            await writer.run(job)
        except Exception as error:  # one that no port raises was logged by the step itself
            _log.warning(
                "%s: upkeep failed: %s; a later pass repeats it", name_of(writer.key), error
            )
            self._unread.failed(writer)
        finally:
            self._has_job.pop(writer, None)

    def making_room(self) -> bool:
        """Whether partitions are being sealed because too many were open."""
        return self._room_task is not None or bool(self._jobs)

    def _make_room(self) -> None:
        """Too many segments are open: seal a batch of the idlest.

        The search goes over all of them, so it waits until so many more were opened as a batch has.
        """
        context, loop = self._context, asyncio.get_running_loop()
        count, now_s = len(context.open_partitions), loop.time()
        if self._room_task is not None or not context.guard.steady():
            return  # without the coordination nothing is sealed, and nothing is opened either
        if count < self._room_count and now_s < self._room_s:
            return
        last_put_s = {
            partition: partition.last_put_s
            for partition in context.open_partitions
            if isinstance(partition, PartitionWriter) and not partition.busy()
        }
        batch = surplus(last_put_s, context.open_max, now_s, busy=count - len(last_put_s))
        self._room_count = count - len(batch) + room(context.open_max)
        self._room_s = now_s + IDLE_S
        if batch:
            self._room_task = loop.create_task(self._seal_all(batch), name="log-room")
            self._room_task.add_done_callback(self._room_made)

    def _room_made(self, task: asyncio.Task[None]) -> None:
        self._room_task = None
        if not task.cancelled() and task.exception() is not None:
            _log.error("sealing idle segments failed", exc_info=task.exception())

    async def _seal_all(self, batch: list[PartitionWriter]) -> None:
        for writer in batch:
            if not writer.busy() and writer not in self._has_job:
                self.start_job(writer, partial(_seal_if_idle, writer))
                await self._free(ROOM_JOBS_MAX)

    def _retention_ms(self) -> int | None:
        context = self._context
        now_ms = context.time.retention_ms()
        if now_ms is None:
            context.counters.retention_standing += 1
        self._clock_record.report()
        return now_ms

    def log_of(self, settings: TopicLogSettings, key: PartitionKey) -> PartitionLog:
        """The partition's log, made on first use. Raises: PartitionNotServing.

        Offsets identify a writer's own blocks only if no other writer of this process was there
        meanwhile, so a partition never has two.
        """
        log = self._partitions.get(key)
        if log is None:
            former = self._former.get(key)
            if former is not None and former.busy():
                raise PartitionNotServing(
                    f"{name_of(key)}: its last step on this server has not ended; try again"
                )
            self._former.pop(key, None)
            writer = PartitionWriter(self._context, key, settings)
            log = self._partitions[key] = PartitionLog(self._context, writer)
        return log

    async def _delete_due(self, loop_s: float) -> None:
        """Delete files whose grace is over; one that fails is left to the next owner."""
        deletion_checks = self._context.deletion_checks
        for _ in range(len(deletion_checks)):
            await delete_if_gone(self._context, *deletion_checks.popleft())
        pending_deletions = self._context.pending_deletions
        for path in [path for path, due_s in pending_deletions.items() if due_s <= loop_s]:
            pending_deletions.pop(path, None)
            try:
                await self._context.files.delete(path)
            except TalosError as error:
                _log.warning("%s was not deleted: %s", path, error)

    async def _repeat(self, step: Callable[[], Awaitable[None]], every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            try:
                await step()
            except TalosError as error:
                _log.warning("log upkeep failed: %s; next attempt in %.0f s", error, every_s)
            except Exception:
                _log.exception("log upkeep failed; next attempt in %.0f s", every_s)


async def _seal_if_idle(writer: PartitionWriter) -> None:
    idle = not writer.queue and writer.group is None
    if idle and writer.context.guard.steady():  # a seal that fails costs the open segment
        await seal(writer)

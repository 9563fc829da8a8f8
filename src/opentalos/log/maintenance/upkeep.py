"""Work beside puts and gets: free space, idle sealing, retention, deleting files.

``LogStore`` starts it. A pass only decides; what it starts runs as a job of the partition, one
step at a time, so changes of a manifest are serialized.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from opentalos.log.context import LogContext
from opentalos.log.maintenance.retention import NOT_METERED, ClockWatch, Retained, droppable
from opentalos.log.manifest.store import ROOT
from opentalos.log.partition.decisions import Due, segment_due
from opentalos.log.partition.jobs import drop, open_now, seal
from opentalos.log.partition.ownership_guard import SingleServerGuard
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.partition.queue import Job, name_of
from opentalos.log.partition.state import State
from opentalos.log.partition.writer import PartitionWriter
from opentalos.log.results import TopicLogSettings
from opentalos.log.segment.writer import delete_if_gone
from opentalos.model.errors import PartitionNotServing, TalosError
from opentalos.model.message import PartitionKey

_log = logging.getLogger(__name__)

SPACE_INTERVAL_S = 1.0  # between two measurements of the free space while something is written
LOADS_PER_PASS_MAX = 1_000  # manifests of earlier runs that one pass reads
PARTITIONS_PER_STEP = 50  # partitions checked before the loop has its turn
JOBS_AT_ONCE_MAX = 200  # above it a pass waits
JOBS_WAIT_S = 1.0  # for one of them to end
OPENINGS_PER_PASS_MAX = 16  # logs of a crashed run that one pass recovers

_UNREAD = (State.UNOPENED, State.BROKEN)  # a later pass tries to read the manifest

Partitions = dict[PartitionKey, PartitionLog]


class Upkeep:
    """Two tasks: one watches the free space, one passes over all partitions.

    Jobs run in the partitions' lanes, at most one for each partition, so a stalled one stops no
    pass. A failed job is logged; a later pass finds the same need again.
    """

    def __init__(
        self,
        context: LogContext,
        partitions: Partitions,
        former: dict[PartitionKey, PartitionWriter],
        topics: dict[str, TopicLogSettings],
    ) -> None:
        self._context, self._partitions, self._topics = context, partitions, topics
        self._former = former  # see LogStore
        self._tasks: list[asyncio.Task[None]] = []
        self._jobs: dict[asyncio.Task[None], None] = {}
        self._has_job: dict[PartitionWriter, None] = {}  # at most one job for each
        # Left by earlier runs; None: not listed. In a cluster the assignment names them.
        self._unseen: list[PartitionKey] | None = None
        if not isinstance(context.guard, SingleServerGuard):
            self._unseen = []
        self._watch: ClockWatch | None = None
        self._standing = False
        self._bytes_seen = -1

    async def start(self) -> None:
        """Measure the space once, then keep running."""
        context, loop = self._context, asyncio.get_running_loop()
        self._watch = ClockWatch(
            context.clock.wall_ms(), loop.time(), context.limits.clock_disagree_max_s
        )
        context.room_by(self._seal_idlest)
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
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def measure_space(self) -> None:
        """Measure the free space if something was written since, or if it was too little."""
        context = self._context
        if context.full or context.counters.bytes != self._bytes_seen:
            self._bytes_seen = context.counters.bytes
            context.note_space(await context.files.space())

    async def run_pass(self) -> None:
        """One pass: load manifests of earlier runs, seal, drop, delete; only what is served."""
        for key in [key for key, writer in self._former.items() if not writer.busy()]:
            del self._former[key]
        if not self._context.guard.steady():
            return
        await self._load_unseen()
        now_ms, loop_s = self._context.clock.wall_ms(), asyncio.get_running_loop().time()
        agrees = self._clocks_agree(now_ms, loop_s)
        for number, log in enumerate(list(self._partitions.values())):
            writer = log.writer
            if writer not in self._has_job and writer.served and self._is_ours(writer):
                self._maintain(writer, now_ms if agrees else None, loop_s)
            if number % PARTITIONS_PER_STEP == 0 and not await self._room():
                break
        await self._delete_due(loop_s)

    def _is_ours(self, writer: PartitionWriter) -> bool:
        return self._context.guard.refusal(writer.key) is None

    async def _room(self) -> bool:
        """Give way to the loop; False: too many jobs are stalled, the next pass does the rest."""
        await asyncio.sleep(0)
        if len(self._jobs) >= JOBS_AT_ONCE_MAX:
            await asyncio.wait(self._jobs, timeout=JOBS_WAIT_S, return_when=asyncio.FIRST_COMPLETED)
        return len(self._jobs) < JOBS_AT_ONCE_MAX

    def _maintain(self, writer: PartitionWriter, now_ms: int | None, loop_s: float) -> None:
        """Start what one partition needs; ``now_ms`` None: nothing may be dropped."""
        if writer.segment is not None and not writer.busy():
            if segment_due(writer, loop_s, loop_s - writer.last_put_s) is Due.SEAL:
                self.start_job(writer, partial(_seal_if_idle, writer))
                return
        if now_ms is None or not writer.readable or writer.damage is not None:
            return
        open_bytes = writer.view.end_position if writer.view is not None else 0
        metered = NOT_METERED if writer.meter is None else writer.meter.mark.offset
        retained = Retained(now_ms, open_bytes, metered)
        count = droppable(writer.versioned.manifest, writer.settings, retained)
        if count:
            self.start_job(writer, partial(drop, writer, count))

    def start_job(self, writer: PartitionWriter, job: Job) -> None:
        """Run ``job`` in the partition's lane; its failure is logged, a later pass repeats it."""
        self._has_job[writer] = None
        task = asyncio.get_running_loop().create_task(self._run_job(writer, job), name="log-job")
        self._jobs[task] = None
        task.add_done_callback(self._job_ended)

    def _job_ended(self, task: asyncio.Task[None]) -> None:
        self._jobs.pop(task, None)

    async def _run_job(self, writer: PartitionWriter, job: Job) -> None:
        try:
            await writer.run(job)
        except TalosError as error:
            _log.warning(
                "%s: upkeep failed: %s; a later pass repeats it", name_of(writer.key), error
            )
            if writer.state in _UNREAD and self._unseen is not None:
                self._unseen.append(writer.key)
        finally:
            self._has_job.pop(writer, None)

    def _seal_idlest(self) -> None:
        """Too many segments are open: seal the one without puts for longest."""
        idlest: PartitionWriter | None = None
        for partition in self._context.open_partitions:
            if isinstance(partition, PartitionWriter) and not (
                partition.busy() or partition in self._has_job
            ):
                if idlest is None or partition.last_put_s < idlest.last_put_s:
                    idlest = partition
        if idlest is not None:
            self.start_job(idlest, partial(_seal_if_idle, idlest))

    def _clocks_agree(self, now_ms: int, loop_s: float) -> bool:
        if self._watch is None:
            return False
        agrees = self._watch.agrees(now_ms, loop_s)
        if not agrees:
            self._context.counters.retention_standing += 1
            if not self._standing:
                _log.warning(
                    "retention paused: wall and loop clock disagree by %.0f s; check the clock",
                    self._watch.disagreement_s(now_ms, loop_s),
                )
        self._standing = not agrees
        return agrees

    async def _load_unseen(self) -> None:
        """Load manifests that earlier runs left; recover logs that were not closed cleanly."""
        manifests = self._context.manifests
        if self._unseen is None:
            self._unseen = []
            for topic_uuid in await manifests.meta.children(ROOT):
                for name in await manifests.meta.children(f"{ROOT}/{topic_uuid}"):
                    if name.isdecimal():
                        self._unseen.append(PartitionKey(topic_uuid, int(name)))
        openings = 0
        for _ in range(min(LOADS_PER_PASS_MAX, len(self._unseen))):
            if openings == OPENINGS_PER_PASS_MAX:
                break
            key = self._unseen.pop()
            settings = self._topics.get(key.topic_uuid)
            if settings is None:
                continue  # its topic is not served here any more
            writer = self.log_of(settings, key).writer
            if writer.busy() or writer.state not in _UNREAD or not self._is_ours(writer):
                continue
            versioned = await manifests.load(key)
            if versioned.manifest.deleted or writer.busy():
                continue
            if versioned.manifest.unsealed is not None:
                openings += 1
                self.start_job(writer, partial(open_now, writer))
            elif writer.state in _UNREAD:
                writer.adopt(versioned)

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
        for _ in range(len(pending_deletions)):
            due_s, path = pending_deletions.popleft()
            if due_s > loop_s:
                pending_deletions.append((due_s, path))
                continue
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
    if not writer.queue and writer.group is None:
        await seal(writer)

"""End marks: a witness behind the last commit of a partition that went idle.

Each block says up to where the log was committed when it was written, so only the last group has no
witness: rot there can look like a torn write. An end mark is a block without messages that names
the last commit; from then on rot in it is known to be rot.

A file whose first group is its only one has no witness that it was registered either, so without
end marks it gets this one (``manifest/leftovers.py``).

A mark costs a commit, so it is written only for a partition without a put for a while, while no
partition has work, and by ``MARKS_AT_ONCE_MAX`` per look for the whole server. A partition whose
last group has a witness gets none.
"""

import asyncio
import logging

from opentalos.log.context import LogContext
from opentalos.log.partition.state import State
from opentalos.log.partition.writer import PartitionWriter
from opentalos.model.limits import LogLimits

_log = logging.getLogger(__name__)

MARKS_AT_ONCE_MAX = 2  # under way; a look begins no more
LOOKED_AT_MAX = 64  # partitions of one look
_MS_PER_S = 1_000
FIRST_MARK_S = 1.0  # idle for so long, if there are no end marks


class EndMarks:
    """Takes the partitions that went idle; one timer, and none while there are none."""

    def __init__(self, limits: LogLimits) -> None:
        self._context: LogContext | None = None  # from ``start`` to ``close``
        self._idle_s = limits.end_mark_ms / _MS_PER_S or FIRST_MARK_S
        self._first_only = not limits.end_mark_ms
        self._waiting: dict[PartitionWriter, None] = {}  # bounded by the open partitions
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self, context: LogContext) -> None:
        """Marks may be written from now on."""
        self._context = context

    def close(self) -> None:
        """Write no further mark; one under way ends with the lanes."""
        self._context = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()

    def went_idle(self, writer: PartitionWriter) -> None:
        """Its lane is done with it. The hot path calls this, so it decides nothing."""
        self._waiting[writer] = None
        if self._timer is None:
            self._arm()

    def _arm(self) -> None:
        if self._context is not None:
            self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._look)

    def _look(self) -> None:
        """Begin a mark for those that were idle for long enough, unless there is other work."""
        self._timer = None
        context, waiting = self._context, self._waiting
        if context is None:
            return
        now_s = asyncio.get_running_loop().time()
        for _ in range(min(len(waiting), LOOKED_AT_MAX)):
            if context.lanes.depth() or len(self._tasks) >= MARKS_AT_ONCE_MAX:
                break
            writer = next(iter(waiting))
            del waiting[writer]
            segment = writer.segment
            if segment is None or segment.marked or not context.guard.steady():
                continue
            if self._first_only and segment.witnessed:
                continue
            if now_s - writer.last_put_s < self._idle_s:
                waiting[writer] = None
            elif not writer.busy():
                self._begin(writer)
        if waiting:
            self._arm()

    def _begin(self, writer: PartitionWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._mark(writer), name="log-end-mark")
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _mark(self, writer: PartitionWriter) -> None:
        try:
            await writer.run(lambda: mark_end(writer))
        except Exception as error:  # the partition left, or its next put re-opens it and logs why
            _log.debug("no end mark: %s", error)


async def mark_end(writer: PartitionWriter) -> None:
    """Job: write the mark, unless a put came first."""
    segment = writer.segment
    if segment is None or writer.queue or writer.group is not None or segment.marked:
        return
    if writer.state is not State.OPEN:
        return
    try:
        await writer.bounded(segment.write_mark())
    except Exception as error:
        if writer.segment is segment:
            writer.write_failed(error)
        raise
    context = writer.context
    context.counters.end_marks += 1

"""Small sealed segments are merged, so that a manifest never grows to its bound.

The upkeep offers partitions. A run of adjacent small segments is copied block by block into one
file, beside puts and gets; one job of the partition then replaces the run by it in the manifest.
Blocks keep every field but the segment's seed, and each is checked before and after it is copied:
damage ends the merge and loses nothing. A crash leaves at most an orphan file.
"""

import asyncio
import logging
from collections.abc import Container

from opentalos.log.context import LogContext
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.partition.jobs import change_sealed
from opentalos.log.partition.queue import name_of
from opentalos.log.partition.writer import PartitionWriter
from opentalos.log.results import TopicLogSettings
from opentalos.log.segment.format import index_path
from opentalos.log.segment.merged_file import Merged, MergeStopped, UnsoundSegment, write_merged
from opentalos.log.segment.writer import delete_if_gone
from opentalos.model.errors import TalosError
from opentalos.model.limits import LogLimits
from opentalos.model.message import PartitionKey

_log = logging.getLogger(__name__)

SMALL_SHARE = 2  # segments below this part of ``segment_bytes_max`` are small
SEGMENTS_MAX = 512  # of one merge
# The last append times of a run differ by at most this part of the retention time, which drops
# whole segments.
SPAN_SHARE = 8
GROWTH = 2  # a merge makes its largest segment at least so many times larger
SPACE_FACTOR = 2  # segments that must fit into the free space above the reserve
UNSOUND_MAX = 1_000  # partitions with segments that cannot be copied; then all are tried again
STALLED_S = 60.0  # a merge takes so much longer than its bytes need: the storage hangs
BYTES_PER_S_MIN = 1 << 20  # of a storage that is merely slow
PAUSE_S = 3_600.0  # until a partition whose storage hung is tried again
_MS_PER_S = 1_000

Run = tuple[Segment, ...]


def mergeable(
    manifest: Manifest,
    settings: TopicLogSettings,
    limits: LogLimits,
    unsound: Container[Segment] = (),
) -> Run:
    """The first run of adjacent segments that is worth a merge, else empty. Pure.

    A block is copied about log2(segments) times in its life, since each merge doubles its segment.
    """
    least, sealed = limits.merge_segments_min, manifest.sealed
    if not 0 < least <= len(sealed) or manifest.handed_over:
        return ()
    span_ms = int(settings.retention_s * _MS_PER_S / SPAN_SHARE)
    for first in range(len(sealed) - least + 1):
        total_bytes = largest_bytes = count = 0
        until_ms = sealed[first].last_append_ms + span_ms
        for segment in sealed[first : first + SEGMENTS_MAX]:
            if (
                segment.bytes * SMALL_SHARE > limits.segment_bytes_max
                or total_bytes + segment.bytes > limits.segment_bytes_max
                or segment.last_append_ms > until_ms
                or segment.counted_ms  # retention treats it apart
                or segment in unsound
            ):
                break
            total_bytes += segment.bytes
            largest_bytes = max(largest_bytes, segment.bytes)
            count += 1
        if count >= least and largest_bytes * GROWTH <= total_bytes:
            return sealed[first : first + count]
    return ()


class SegmentMerger:
    """Merges one run at a time, of one partition after the other, for the whole server."""

    def __init__(self, context: LogContext) -> None:
        self._context = context
        self._waiting: dict[PartitionWriter, None] = {}
        self._unsound: dict[PartitionKey, set[Segment]] = {}  # they stay as they are
        self._paused: dict[PartitionKey, float] = {}  # whose storage hung: until when
        self.busy = False  # whether a merge is under way or waits

    def offer(self, writer: PartitionWriter) -> None:
        """Merge segments of this partition soon, if there is a run."""
        if writer not in self._waiting and self._run_of(writer):
            self._waiting[writer] = None
            if not self.busy:
                self.busy = True
                self._context.background.start(self._work)

    def _run_of(self, writer: PartitionWriter) -> Run:
        context = self._context
        if not writer.readable or writer.damage is not None or context.closing:
            return ()
        free_bytes = context.space_left - context.limits.space_reserve_bytes
        if context.full or free_bytes < SPACE_FACTOR * context.limits.segment_bytes_max:
            return ()  # the former files stay for the grace time
        if not context.guard.steady() or context.guard.refusal(writer.key) is not None:
            return ()
        if self._paused.get(writer.key, 0.0) > asyncio.get_running_loop().time():
            return ()
        manifest = writer.versioned.manifest
        unsound = self._unsound.get(writer.key, set())
        return mergeable(manifest, writer.settings, context.limits, unsound)

    async def _work(self) -> None:
        try:
            while self._waiting:
                writer = next(iter(self._waiting))
                del self._waiting[writer]
                run = self._run_of(writer)
                if run and await self._merge(writer, run):
                    self._waiting[writer] = None  # behind the others
        finally:
            self.busy = False

    async def _merge(self, writer: PartitionWriter, run: Run) -> bool:
        """Whether the run was merged; if not, nothing of the log was changed."""
        context, epoch = self._context, writer.versioned.manifest.epoch
        try:
            async with asyncio.timeout(_copy_s_max(run)):
                merged = await write_merged(context, writer.key, epoch, run)
        except MergeStopped:
            return False
        except TimeoutError:
            self._stalled(writer)
            return False
        except UnsoundSegment as error:
            context.counters.merge_failures += 1
            _log.error("%s: segments are not merged: %s", name_of(writer.key), error)
            self._remember(writer.key, error.segment)
            return True  # others may be
        except TalosError as error:
            context.counters.merge_failures += 1
            _log.warning("%s: segments were not merged: %s", name_of(writer.key), error)
            return False
        replacement = _Replacement(writer, epoch, run, merged)
        try:
            async with asyncio.timeout(STALLED_S):
                await writer.run(replacement.run)
        except TimeoutError:  # the job may still have its turn, and must not name a deleted file
            replacement.cancel()
            self._stalled(writer)
        except TalosError as error:
            context.counters.merge_failures += 1
            _log.warning("%s: segments were not merged: %s", name_of(writer.key), error)
        if not replacement.tried:
            _delete(context, merged.segment.path(writer.key), 0.0)
        return replacement.done

    def _stalled(self, writer: PartitionWriter) -> None:
        """The partition's storage hangs: leave it alone for a while, others are merged."""
        self._context.counters.merge_failures += 1
        _log.warning("%s: segments were not merged: storage hangs", name_of(writer.key))
        if len(self._paused) >= UNSOUND_MAX:
            self._paused.clear()
        self._paused[writer.key] = asyncio.get_running_loop().time() + PAUSE_S

    def _remember(self, key: PartitionKey, segment: Segment) -> None:
        if len(self._unsound) >= UNSOUND_MAX:
            self._unsound.clear()
        self._unsound.setdefault(key, set()).add(segment)


class _Replacement:
    """Job: name the merged segment instead of the run, manifest first, files after a grace."""

    def __init__(self, writer: PartitionWriter, epoch: int, run: Run, merged: Merged) -> None:
        self._writer, self._epoch, self._run, self._merged = writer, epoch, run, merged
        self.tried = False  # then the manifest may name the new file, whatever was answered
        self.done = self._cancelled = False

    def cancel(self) -> None:
        """Nobody waits any more: change nothing if its turn comes late."""
        self._cancelled = True

    async def run(self) -> None:
        """Raises: TalosError: the change was not made, or perhaps."""
        writer, context, run = self._writer, self._writer.context, self._run
        manifest = writer.versioned.manifest
        if self._cancelled or (writer.segment is None and not writer.readable):
            return
        # An opening of a later epoch may have deleted the file as an orphan.
        replaced = manifest.merged(run, self._merged.segment)
        if manifest.epoch != self._epoch or replaced is None or context.closing:
            return
        if not context.guard.steady():
            return
        self.tried = True
        merged_path = self._merged.segment.path(writer.key)
        try:
            await change_sealed(writer, replaced)
        except TalosError:  # perhaps since another server deleted the topic, with all it found
            for path in (merged_path, index_path(merged_path)):
                await delete_if_gone(context, writer.key, path)
            raise
        self.done = True
        context.views.put(merged_path, self._merged.side)
        due_s = asyncio.get_running_loop().time() + context.limits.delete_grace_s
        for segment in run:
            path = segment.path(writer.key)
            context.views.forget(path)
            _delete(context, path, due_s)
        context.counters.merges += 1
        context.counters.segments_merged += len(run)


def _copy_s_max(run: Run) -> float:
    return STALLED_S + sum(segment.bytes for segment in run) / BYTES_PER_S_MIN


def _delete(context: LogContext, path: str, due_s: float) -> None:
    context.schedule_deletion(path, due_s)
    context.schedule_deletion(index_path(path), due_s)

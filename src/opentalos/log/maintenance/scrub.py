"""Scrub: reads sealed segments at a bounded rate, so that rot is reported before a reader meets it.

It walks over this server's partitions in the order of their names and remembers only how far it
came, so the segment that was verified longest ago is always next. A segment that fails is read once
more, then reported. A store that has copies repairs them itself when one is read: the HDFS client
passes over a replica whose checksum fails, and reports it to the NameNode, which makes another.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import NamedTuple

from opentalos.log.context import LogContext
from opentalos.log.manifest.manifest import Segment
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.partition.queue import name_of
from opentalos.log.segment.index import SparseIndex
from opentalos.log.segment.scan import SCAN_WINDOW_BYTES, SegmentScan, scan_segment
from opentalos.log.segment.view import read_segment_header
from opentalos.model.errors import CorruptLog, NotFound, TalosError
from opentalos.model.message import PartitionKey

_log = logging.getLogger(__name__)

ROOT = "scrub"  # in the MetaStore: one record per server
START_AFTER_S = 60.0  # of a server's start, when other work is urgent
AGAIN_S = 60.0  # after the store did not answer
SAVE_EVERY_S = 60.0  # a crash repeats what was verified since
BUSY_CHECK_S = 0.05
BUSY_CHECKS_MAX = 200  # a window is read after so many even if partitions always wait for a lane
DAMAGED_MAX = 10_000  # segments that are named as damaged


class Place(NamedTuple):
    """The segment that was verified last."""

    key: PartitionKey
    base_offset: int


START = Place(PartitionKey("", -1), -1)


class Scrub:
    """One task of a server; it reads only what this server serves."""

    def __init__(
        self, context: LogContext, partitions: Mapping[PartitionKey, PartitionLog]
    ) -> None:
        self._context, self._partitions = context, partitions
        self._paced = _PacedFiles(context)
        self.damaged: dict[str, None] = {}  # paths, until a later pass finds them whole or gone
        self._place: Place | None = None  # None: not loaded yet
        self._saved_s = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Run until ``close``; nothing if the rate is 0."""
        if self._context.limits.scrub_bytes_per_s:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._run(), name="log-scrub")

    async def close(self) -> None:
        """Stop at once; the next start continues near the same place."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        interval_s = self._context.limits.scrub_interval_s
        await asyncio.sleep(min(START_AFTER_S, interval_s))
        loop = asyncio.get_running_loop()
        while True:
            began_s, every_s = loop.time(), interval_s
            try:
                await self.run_pass()
            except TalosError as error:
                every_s = min(AGAIN_S, interval_s)
                _log.warning("scrub stopped: %s; next attempt in %.0f s", error, every_s)
            except Exception:
                _log.exception("scrub stopped; next attempt in %.0f s", every_s)
            await asyncio.sleep(max(every_s - (loop.time() - began_s), 1.0))

    async def run_pass(self) -> None:
        """Verify every sealed segment from where the last pass ended. Raises: TalosError."""
        place = await self._load()
        for key in sorted(self._partitions):
            await asyncio.sleep(0)
            if key < place.key:
                continue
            for segment in self._sealed(key):
                if Place(key, segment.base_offset) <= place:
                    continue
                if self._is_ours(key, segment):
                    await self._verify(key, segment)
                await self._passed(Place(key, segment.base_offset))
        self._forget_gone()
        await self._passed(START, save=True)
        self._context.counters.scrub_passes += 1

    def _forget_gone(self) -> None:
        """What was dropped, merged, deleted or moved away is not damaged here any more."""
        if self.damaged:
            kept = {each.path(key) for key in self._partitions for each in self._sealed(key)}
            for path in [path for path in self.damaged if path not in kept]:
                del self.damaged[path]

    def _sealed(self, key: PartitionKey) -> tuple[Segment, ...]:
        log = self._partitions.get(key)
        if log is None or not log.writer.readable:
            return ()
        return log.writer.versioned.manifest.sealed

    def _is_ours(self, key: PartitionKey, segment: Segment) -> bool:
        """Whether this server still serves the partition, and the segment is still retained."""
        return self._context.guard.refusal(key) is None and segment in self._sealed(key)

    async def _verify(self, key: PartitionKey, segment: Segment) -> None:
        path, counters = segment.path(key), self._context.counters
        try:
            fault = await self._fault_of(path, segment)
            if fault:
                fault = await self._fault_of(path, segment)
        except TalosError as error:
            _log.warning("scrub: %s of %s was not read: %s", path, name_of(key), error)
            return
        if not self._is_ours(key, segment):
            self.damaged.pop(path, None)
            return
        counters.scrubbed_segments += 1
        if not fault:
            self.damaged.pop(path, None)
        elif path not in self.damaged and len(self.damaged) < DAMAGED_MAX:
            self.damaged[path] = None
            counters.corrupt += 1
            _log.error("scrub: %s: %s %s; restore it", name_of(key), path, fault)

    async def _fault_of(self, path: str, segment: Segment) -> str:
        """The first place that is damaged, or an empty string. Raises: TalosError: not read."""
        try:
            header = await read_segment_header(self._paced, path)
            if (header.base_offset, header.epoch) != (segment.base_offset, segment.epoch):
                return f"position 0: it is of offset {header.base_offset}, epoch {header.epoch}"
            index = SparseIndex(max(segment.bytes, SCAN_WINDOW_BYTES))
            scan = SegmentScan(header.seed, segment.base_offset, index)
            await scan_segment(self._paced, path, scan, segment.bytes)
        except (CorruptLog, NotFound) as error:
            return f"position 0: {error}"
        if scan.fault:
            return f"position {scan.position} offset {scan.next_offset}: {scan.fault}"
        if scan.next_offset != segment.next_offset:
            return (
                f"position {scan.position}: it ends at offset {scan.next_offset}, "
                f"the manifest says {segment.next_offset}"
            )
        return ""

    # --- how far it came ------------------------------------------------------------------------

    async def _load(self) -> Place:
        if self._place is None:
            record = await self._context.manifests.meta.get(self._path)
            self._place = START if record is None else _decoded(record.value)
        return self._place

    async def _passed(self, place: Place, *, save: bool = False) -> None:
        """Remember ``place``, in storage not too often. An error costs some work after a start."""
        self._place = place
        now_s = asyncio.get_running_loop().time()
        if not save and now_s - self._saved_s < SAVE_EVERY_S:
            return
        self._saved_s = now_s
        meta, value = self._context.manifests.meta, _encoded(place)
        try:
            record = await meta.get(self._path)
            if record is None:
                await meta.create(self._path, value)
            elif record.value != value:
                await meta.replace(self._path, value, record.version)
        except TalosError as error:
            _log.debug("the place of the scrub was not saved: %s", error)

    @property
    def _path(self) -> str:
        return f"{ROOT}/{self._context.server}"


class _PacedFiles:
    """Reads of the scrub: at its rate, and not while partitions wait for a commit lane."""

    def __init__(self, context: LogContext) -> None:
        self._context = context

    async def read(self, path: str, *, position: int, bytes_max: int) -> bytes:
        """See the port."""
        await self._turn()
        raw = await self._context.files.read(path, position=position, bytes_max=bytes_max)
        self._context.counters.scrubbed_bytes += len(raw)
        rate = self._context.limits.scrub_bytes_per_s
        await asyncio.sleep(len(raw) / rate if rate else 0)
        return raw

    async def _turn(self) -> None:
        lanes = self._context.lanes
        for _ in range(BUSY_CHECKS_MAX):
            if lanes.depth() <= lanes.count():
                return
            await asyncio.sleep(BUSY_CHECK_S)


def _encoded(place: Place) -> bytes:
    return json.dumps([place.key.topic_uuid, place.key.partition, place.base_offset]).encode()


def _decoded(value: bytes) -> Place:
    """The place; the start if the record is not one that this version knows."""
    try:
        topic_uuid, partition, base_offset = json.loads(value)
        return Place(PartitionKey(str(topic_uuid), int(partition)), int(base_offset))
    except (ValueError, TypeError):
        return START

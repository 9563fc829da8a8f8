"""What an opening finds at the end of a log: how the last segment is sealed, and its tail.

``opening`` calls it after the claim, when no former writer can change the manifest any more. It
fences the unsealed segment, scans it and decides: acknowledged messages are never cut off (promises
I1 and I3), and nothing beyond them is shown before it is copied (I4).
"""

import logging
import math
from typing import NamedTuple, Protocol

from opentalos.log.context import LogContext
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import VersionedManifest
from opentalos.log.partition.queue import name_of
from opentalos.log.results import TopicLogSettings
from opentalos.log.segment.damage import page_missing
from opentalos.log.segment.format import (
    BLOCK_HEADER_BYTES,
    FLAG_END_MARK,
    SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC,
    block_end,
    block_fault,
    index_path,
    read_header,
    segment_path,
    stored_block,
)
from opentalos.log.segment.index import SideIndex, SparseIndex
from opentalos.log.segment.scan import (
    Readable,
    SegmentScan,
    judge_bad_block,
    read_head,
    scan_segment,
)
from opentalos.log.segment.state_format import LogState
from opentalos.log.segment.view import (
    SegmentView,
    load_side_index,
    read_segment_header,
    read_side_index,
)
from opentalos.log.segment.writer import (
    Tail,
)
from opentalos.model.errors import (
    CorruptLog,
    NotFound,
)
from opentalos.model.message import Durability, MessageBlock, PartitionKey
from opentalos.ports.file_store import FileStore

_log = logging.getLogger(__name__)

_START_BYTES = 64 << 10  # of a segment that are searched for such a page


class Claim(Protocol):
    """The partition that opens; it gets each finding as soon as it is certain."""

    @property
    def judged(self) -> bool:
        """Whether this process has owned it since it judged what the manifest does not name."""
        ...

    def leftovers_judged(self) -> None:
        """What the manifest does not name proves nothing."""
        ...

    def former_seen(self, former: Manifest) -> None:
        """The manifest before the claim. Raises: TalosError: the partition must not be claimed."""
        ...

    def recovered(self, next_offset: int) -> None:
        """The last segment is fenced and scanned. Raises: CorruptLog if acked data is gone."""
        ...

    def damaged(self, versioned: VersionedManifest, view: SegmentView | None) -> None:
        """The log cannot be continued, but valid blocks can be read; None: sealed ones only."""
        ...


class RecoveredEnd(NamedTuple):
    """The former last segment: how it is sealed, and what must be copied from it."""

    sealed: Segment | None  # None: nothing unsealed, or nothing in it
    side: SideIndex | None
    next_offset: int  # C: where the new segment begins
    state: LogState
    tail: Tail
    may_be_cut: bool = False  # a loss of power may have taken flushed messages behind it

    @property
    def tail_end(self) -> int:
        """Offset after the tail: where the log continues."""
        if not self.tail:
            return self.next_offset
        block, base_offset, _, _ = self.tail[-1]
        return base_offset + block.messages

    def view(self, key: PartitionKey) -> SegmentView | None:
        """The former last segment as readers may see it, if the log cannot be continued."""
        if self.sealed is None or self.side is None:
            return None
        side = self.side
        view = SegmentView(self.sealed.path(key), side.seed, side.base_offset, side.sparse)
        view.show_to(side.next_offset, side.segment_bytes)
        return view


async def sealed_end(
    context: LogContext, key: PartitionKey, versioned: VersionedManifest, claim: Claim
) -> RecoveredEnd:
    """A log that was closed cleanly needs no recovery, only its state."""
    try:
        state = await last_state(context, key, versioned.manifest)
    except CorruptLog:
        context.counters.corrupt += 1
        claim.damaged(versioned, None)
        raise
    return RecoveredEnd(None, None, versioned.manifest.sealed_next, state, [])


def keeps_state(manifest: Manifest, state: LogState) -> bool:
    """Whether an empty last segment must stay, as the only place of the log's state."""
    alone = len(manifest.segments) <= 1
    return alone and (manifest.start > 0 or len(state.producers) > 0)


class EndRecovery:
    """Fences and reads the unsealed segment of a former owner."""

    def __init__(
        self, context: LogContext, key: PartitionKey, settings: TopicLogSettings, claim: Claim
    ) -> None:
        self._context, self._key, self._claim = context, key, claim
        self._topic = settings.durability  # now; the segment may have another one
        self._durability: Durability | None = None  # of the segment, once its header was read
        self._files: FileStore = context.files
        self._copy_from = math.inf  # position in the segment from which on its file may lack bytes

    async def run(self, versioned: VersionedManifest, last: Segment) -> RecoveredEnd:
        """Find C and the tail. Raises: CorruptLog, RecoveryStuck."""
        path = last.path(self._key)
        try:
            length = await self._fenced(last, versioned)
            fixed = await read_head(self._files, path, length)
        except NotFound as error:
            raise CorruptLog(f"{name_of(self._key)}: segment file {path} is missing") from error
        try:
            scan = await self._scan(fixed, last, path, length)
        except CorruptLog as error:
            if not await self._start_lost_by_power(path, length):
                self._context.counters.corrupt += 1
                raise
            return await self._without(versioned, last, error)
        if scan.fault and scan.position < length:
            await self._check_damage(versioned, scan, path, length)
        tail = await _read_tail(fixed, path, scan)
        keeps = self._copy_from >= scan.state_end and keeps_state(versioned.manifest, scan.state)
        if scan.tail_position == scan.state_end and not keeps:  # perhaps it has no file at all
            return RecoveredEnd(None, None, scan.tail_offset, scan.state, tail, self._may_be_cut())
        scan.index.cut(scan.tail_position)
        sealed = last._replace(
            next_offset=scan.tail_offset,
            bytes=scan.tail_position,
            last_append_ms=scan.state.last_append_ms,
        )
        side = SideIndex(
            scan.seed,
            last.epoch,
            last.base_offset,
            scan.tail_offset,
            scan.tail_position,
            scan.index,
            # The new segment continues the scan's state, so the side index gets a copy.
            LogState.decode(scan.state.encode()),
        )
        return RecoveredEnd(sealed, side, scan.tail_offset, scan.state, tail, self._may_be_cut())

    async def _fenced(self, last: Segment, versioned: VersionedManifest) -> int:
        """Fence the segment and the journal it may need; its length with what that has.

        Raises: CorruptLog: the journal is damaged, so only what is sealed can be read, and what
            the segment's own file proves.
        """
        context, journal, path = self._context, versioned.manifest.journal, last.path(self._key)
        deadline_s = context.limits.recover_deadline_s
        if not journal:
            return await self._files.recover(path, deadline_s=deadline_s)
        self._files = context.journaled
        try:
            end = await context.journaled.recover_end(path, journal, deadline_s)
        except CorruptLog:
            context.counters.corrupt += 1
            self._claim.damaged(versioned, await self._proven(last, deadline_s))
            raise
        if end.copy_from is not None:
            self._copy_from = end.copy_from
        return end.length

    async def _proven(self, last: Segment, deadline_s: float) -> SegmentView | None:
        """What the segment's own file proves to be acknowledged; None: nothing."""
        path = last.path(self._key)
        try:
            length = await self._files.recover(path, deadline_s=deadline_s)
            scan = await self._scan(self._files, last, path, length)
        except (CorruptLog, NotFound) as error:
            _log.warning("%s cannot be read without its journal: %s", path, error)
            return None
        scan.index.cut(scan.tail_position)
        view = SegmentView(path, scan.seed, last.base_offset, scan.index)
        view.show_to(scan.tail_offset, scan.tail_position)
        return view

    async def _scan(self, files: Readable, last: Segment, path: str, length: int) -> SegmentScan:
        context = self._context
        try:
            header = await read_segment_header(files, path)
        except CorruptLog as error:
            # It was registered, so a commit of this header had returned.
            raise CorruptLog(f"{name_of(self._key)}: {error}") from error
        self._durability = header.durability
        index = SparseIndex(context.limits.index_interval_bytes)
        scan = SegmentScan(header.seed, last.base_offset, index, self._copy_from)
        await scan_segment(files, path, scan, length)
        if not scan.state_end:
            raise CorruptLog(self._place(path, scan))
        return scan

    async def _start_lost_by_power(self, path: str, length: int) -> bool:
        """Whether a flushed segment's first page never reached the disk: zeros, or cut short.

        Only in files of older servers: by now the first commit of every file is synced.
        """
        if self._durability is not None or not self._may_be_cut():
            return False
        raw = await self._files.read(path, position=0, bytes_max=_START_BYTES)
        first_bytes = SEGMENT_HEADER_BYTES + BLOCK_HEADER_BYTES
        if length < first_bytes:
            return True
        # Zeros of a payload are no lost page: only header and state block are looked at.
        known = raw.startswith(SEGMENT_MAGIC)
        end = block_end(raw, SEGMENT_HEADER_BYTES) if known else first_bytes
        return page_missing(raw, 0, 0, end, length <= len(raw)) or (known and end > length)

    def _may_be_cut(self) -> bool:
        """Whether a power loss may have taken acknowledged bytes of the segment.

        The segment itself says so. One of an older server does not: it is cut only if the topic
        is flushed now and pages are missing, as its writer would have; otherwise it is refused.
        """
        return (self._durability or self._topic) is Durability.FLUSHED

    async def _without(
        self, versioned: VersionedManifest, last: Segment, error: CorruptLog
    ) -> RecoveredEnd:
        """Continue as if the last segment, whose start a power loss took, had held nothing."""
        context = self._context
        context.counters.truncated += 1
        _log.warning("log-truncated: %s; flushed messages were lost with it", error)
        state = await last_state(context, self._key, versioned.manifest.with_last_sealed(None))
        return RecoveredEnd(None, None, last.base_offset, state, [], may_be_cut=True)

    async def _check_damage(
        self, versioned: VersionedManifest, scan: SegmentScan, path: str, length: int
    ) -> None:
        """Cut off what a crash left behind the last valid block. Raises: CorruptLog: it is rot.

        A later block with a larger ``committed`` proves that the bad one was acknowledged. Only a
        power loss that took pages of a flushed segment explains that; without such a proof, any
        crash in the middle of the last group.
        """
        context = self._context
        found = await judge_bad_block(self._files, path, scan.seed, scan.position, length)
        acknowledged = max(scan.committed, found.acknowledged)
        proven = acknowledged > scan.next_offset
        manifest = versioned.manifest
        accepted = manifest.accepts_loss(manifest.segments[-1].epoch)
        if (accepted and scan.next_offset >= manifest.loss_end) or (
            found.crash and (not proven or self._may_be_cut())
        ):
            self._cut(scan, path, length, acknowledged)
            return
        context.counters.corrupt += 1
        view = SegmentView(path, scan.seed, versioned.manifest.segments[-1].base_offset, scan.index)
        # The file is fenced and never cut, so whatever is whole in it may be read.
        view.show_to(max(acknowledged, scan.next_offset), length)
        self._claim.damaged(versioned, view)
        raise CorruptLog(
            f"{self._place(path, scan)}; acknowledged below offset {acknowledged}"
            + ("" if proven else ", and perhaps this block")
        )

    def _cut(self, scan: SegmentScan, path: str, length: int, acknowledged: int) -> None:
        """Count and log what is left out of the log."""
        counters, place = self._context.counters, self._place(path, scan)
        if acknowledged > scan.next_offset:
            counters.truncated += 1
            _log.warning(
                "log-truncated: %s: flushed messages from offset %d to %d were lost",
                *(place, scan.next_offset, acknowledged - 1),
            )
            return
        counters.tails_cut += 1
        _log.warning(
            "log-tail-cut: %s: a crash left %d bytes of the last group, which are left out",
            *(place, length - scan.position),
        )

    def _place(self, path: str, scan: SegmentScan) -> str:
        return (
            f"{name_of(self._key)}: {path} position {scan.position} "
            f"offset {scan.next_offset}: {scan.fault}"
        )


async def _read_tail(files: Readable, path: str, scan: SegmentScan) -> Tail:
    """The blocks from C up to the first bad one; at most one group."""
    count_bytes = scan.position - scan.tail_position
    raw = await files.read(path, position=scan.tail_position, bytes_max=count_bytes)
    tail: Tail = []
    start = 0
    while start < count_bytes:
        fault = block_fault(raw, start, scan.seed)
        if fault:  # it was valid a moment ago
            raise CorruptLog(f"{path} position {scan.tail_position + start}: {fault}")
        header = read_header(raw, start)
        if header.flags & FLAG_END_MARK:  # of the old segment's commits
            start += header.block_bytes
            continue
        stored = stored_block(raw, start, header)
        block = MessageBlock(
            bytes(stored.payload),
            header.messages,
            header.compression,
            header.create_ms,
            header.format,
            header.principal,
            stored.extras,
            header.producer,
        )
        tail.append((block, header.base_offset, header.append_ms, header.flags))
        start += header.block_bytes
    return tail


async def last_state(context: LogContext, key: PartitionKey, manifest: Manifest) -> LogState:
    """The log state of a partition whose segments are all sealed.

    Raises: CorruptLog if it can be neither read nor rebuilt.
    """
    if manifest.end_state:
        return LogState.decode(manifest.end_state)
    interval = context.limits.index_interval_bytes
    if manifest.segments:
        side = await load_side_index(context.files, key, manifest.segments[-1], interval)
        return side.state
    if manifest.state_of is None:
        return LogState()
    path = index_path(segment_path(key.topic_uuid, key.partition, *manifest.state_of))
    found = await read_side_index(context.files, path, interval)
    if found is None:
        raise CorruptLog(f"{name_of(key)}: {path} with the log's state is missing or damaged")
    return found.state

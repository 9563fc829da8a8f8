"""Opening a partition as its new owner: take over, recover, copy the tail, register.

A crash between any two steps leaves at most an orphan file, which the next owner deletes.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from opentalos.log.context import LogContext
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import VersionedManifest
from opentalos.log.partition.queue import name_of
from opentalos.log.results import TopicLogSettings
from opentalos.log.segment.format import (
    BLOCK_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC,
    block_end,
    block_fault,
    index_path,
    parse_file_name,
    read_header,
    segment_path,
    stored_block,
)
from opentalos.log.segment.index import SideIndex, SparseIndex
from opentalos.log.segment.scan import Readable, SegmentScan, read_head, scan_segment, valid_blocks
from opentalos.log.segment.state_format import LogState
from opentalos.log.segment.view import (
    SegmentView,
    load_side_index,
    read_segment_header,
    read_side_index,
)
from opentalos.log.segment.writer import (
    OpenSegment,
    SegmentStart,
    Tail,
    close_handed_over,
    create_segment,
    delete_if_gone,
    write_side_index_soon,
)
from opentalos.model.errors import (
    CorruptLog,
    NotFound,
    PartitionNotServing,
    TalosError,
    TopicNotExist,
)
from opentalos.model.message import Durability, MessageBlock, PartitionKey

_log = logging.getLogger(__name__)

_ZEROS = bytes(512)  # one sector: what a page that was never written reads as
_START_BYTES = 64 << 10  # of a segment that are looked at for such a page


# After a crash hundreds of partitions are opened and readers wait for them; for the side index of a
# recovered segment nobody waits.
SIDE_INDEX_AFTER_S = 3.0


class Claim(Protocol):
    """The partition that opens; it is told each finding as soon as it is certain."""

    def former_seen(self, former: Manifest) -> None:
        """The manifest before the take-over."""
        ...

    def recovered(self, next_offset: int) -> None:
        """The last segment is fenced and scanned. Raises: CorruptLog if acked data is gone."""
        ...

    def damaged(self, versioned: VersionedManifest, view: SegmentView | None) -> None:
        """The log cannot be continued, but valid blocks can be read; None: all is sealed."""
        ...


class Opened(NamedTuple):
    """What a successful opening gives its owner."""

    versioned: VersionedManifest
    segment: OpenSegment


class _Recovered(NamedTuple):
    """The former last segment: how it is sealed, and what must be copied from it."""

    sealed: Segment | None  # None: nothing unsealed, or nothing in it
    side: SideIndex | None
    next_offset: int  # C: where the new segment begins
    state: LogState
    tail: Tail

    @property
    def tail_end(self) -> int:
        """Offset behind the tail: where the log will go on."""
        if not self.tail:
            return self.next_offset
        block, base_offset, _, _ = self.tail[-1]
        return base_offset + block.messages


async def open_partition(
    context: LogContext, key: PartitionKey, settings: TopicLogSettings, claim: Claim
) -> Opened:
    """Take over, recover and register a new segment.

    Raises: PartitionNotServing: somebody else took over, or is to serve it. TopicNotExist.
    CorruptLog: acknowledged bytes are damaged or gone, so nothing may be written. Other
    Unavailable or OutcomeUnknown: try again.
    """
    context.counters.openings += 1
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    versioned, present = await _claimed(context, key, claim)
    claimed_s = loop.time()
    former = versioned.manifest.unsealed
    try:
        await _delete_orphans(context, key, versioned.manifest, present)
        if former is None:
            recovered = await _sealed_end(context, key, versioned, claim)
        else:
            recovered = await _Recovery(context, key, settings, claim).run(versioned, former)
    except CorruptLog as error:
        # Another owner may have taken over meanwhile and have added or dropped these files.
        if (await context.manifests.load(key)).version != versioned.version:
            raise PartitionNotServing(f"{name_of(key)}: another owner took over") from error
        raise
    claim.recovered(recovered.tail_end)
    recovered_s = loop.time()
    start = SegmentStart(
        versioned.manifest.epoch, recovered.next_offset, recovered.state, recovered.tail
    )
    segment = await create_segment(context, key, settings.durability, start)
    sealed = versioned.manifest.with_last_sealed(recovered.sealed)
    entry = Segment(segment.view.base_offset, segment.epoch)
    try:
        _check_guard(context, key)
        versioned = await context.manifests.change(key, versioned, sealed.registered(entry))
    except TalosError:
        await _close_quietly(segment)
        await delete_if_gone(context, key, segment.view.path)
        raise
    if former is not None:
        _after_seal(context, key, former.path(key), recovered.side)
    _log.info(
        "%s is %s at epoch %d: claimed in %.3f s, recovered in %.3f s, open in %.3f s",
        *(name_of(key), "recovered" if former is not None else "open", versioned.manifest.epoch),
        *(claimed_s - began_s, recovered_s - claimed_s, loop.time() - recovered_s),
    )
    return Opened(versioned, segment)


async def _claimed(
    context: LogContext, key: PartitionKey, claim: Claim
) -> tuple[VersionedManifest, Sequence[str]]:
    """The manifest with the next epoch, owned by this server; and the partition's files."""
    versioned = await _former(context, key)
    # The take-over expects the manifest that was loaded before the look at the files, so whatever
    # it names is among them. What a former owner adds meanwhile is left to the next opening.
    outcomes = await asyncio.gather(
        _with_next_epoch(context, key, versioned, claim),
        context.files.list(f"{key.topic_uuid}/{key.partition}"),
        return_exceptions=True,
    )
    owned, present = outcomes
    if isinstance(owned, BaseException):
        raise owned
    if isinstance(present, BaseException):
        raise present
    former = versioned.manifest
    if former.handed_over and not _is_ours(context, former):
        close_handed_over(context, key, former)
    return owned, present


async def _former(context: LogContext, key: PartitionKey) -> VersionedManifest:
    """The manifest once the former owner has sealed, or need not be waited for."""
    _check_guard(context, key)
    while True:
        versioned = await context.manifests.load(key)
        if versioned.manifest.deleted:
            raise PartitionNotServing(f"{name_of(key)} is being deleted")
        if versioned.manifest.unsealed is None or _is_ours(context, versioned.manifest):
            return versioned
        wait_s = context.guard.wait_s(key, versioned.manifest)
        if wait_s <= 0:
            return versioned
        await asyncio.sleep(wait_s)  # the gate bounds how often


async def _with_next_epoch(
    context: LogContext, key: PartitionKey, versioned: VersionedManifest, claim: Claim
) -> VersionedManifest:
    """The next epoch of what is held, owned by this server.

    A partition without any segment may be one of a deleted topic that this server still has in
    memory. Its manifest stands now, so a deletion that begins later will find it.
    """
    if not _is_ours(context, versioned.manifest):
        await context.guard.confirm_owner(key)
    _check_guard(context, key)
    claim.former_seen(versioned.manifest)
    owned = versioned.manifest.next_epoch(context.server, context.manifests.instance)
    versioned = await context.manifests.change(key, versioned, owned)
    if (
        not versioned.manifest.segments and versioned.manifest.state_of is None
    ):  # nothing was ever written
        try:
            await context.guard.confirm_topic(key)
        except TopicNotExist:
            await context.manifests.remove(key, versioned)
            raise
    return versioned


def _is_ours(context: LogContext, former: Manifest) -> bool:
    return former.instance == context.manifests.instance


def _check_guard(context: LogContext, key: PartitionKey) -> None:
    refusal = context.guard.refusal(key)
    if refusal is not None:
        raise refusal


async def _sealed_end(
    context: LogContext, key: PartitionKey, versioned: VersionedManifest, claim: Claim
) -> _Recovered:
    """A log that was closed cleanly needs no recovery, only its state."""
    try:
        state = await last_state(context, key, versioned.manifest)
    except CorruptLog:
        context.counters.corrupt += 1
        claim.damaged(versioned, None)
        raise
    return _Recovered(None, None, versioned.manifest.sealed_next, state, [])


async def _close_quietly(segment: OpenSegment) -> None:
    """Let go of a file that may be an orphan now, so that no descriptor stays open."""
    try:
        await segment.file.close()
    except TalosError as error:
        _log.debug("%s was not closed: %s", segment.view.path, error)


def _after_seal(context: LogContext, key: PartitionKey, path: str, side: SideIndex | None) -> None:
    if side is None:
        context.schedule_deletion(path, 0.0)
    else:
        context.views.put(path, side)

        def write() -> None:
            if not context.closing:
                write_side_index_soon(context, key, path, side)

        asyncio.get_running_loop().call_later(SIDE_INDEX_AFTER_S, write)


def keeps_state(manifest: Manifest, state: LogState) -> bool:
    """Whether an empty last segment must stay, as the only place of the log's state."""
    alone = len(manifest.segments) <= 1
    return alone and (manifest.start > 0 or len(state.producers) > 0)


class _Recovery:
    """Fences and reads the unsealed segment of a former owner."""

    def __init__(
        self, context: LogContext, key: PartitionKey, settings: TopicLogSettings, claim: Claim
    ) -> None:
        self._context, self._key, self._settings, self._claim = context, key, settings, claim

    async def run(self, versioned: VersionedManifest, last: Segment) -> _Recovered:
        """Find C and the tail. Raises: CorruptLog, RecoveryStuck."""
        files, path = self._context.files, last.path(self._key)
        deadline_s = self._context.limits.recover_deadline_s
        try:
            length = await files.recover(path, deadline_s=deadline_s)
            fixed = await read_head(files, path, length)
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
        if scan.tail_position == scan.state_end and not keeps_state(versioned.manifest, scan.state):
            return _Recovered(None, None, scan.committed, scan.state, tail)
        scan.index.cut(scan.tail_position)
        sealed = Segment(
            last.base_offset,
            last.epoch,
            scan.committed,
            scan.tail_position,
            scan.state.last_append_ms,
        )
        side = SideIndex(
            scan.seed,
            last.epoch,
            last.base_offset,
            scan.committed,
            scan.tail_position,
            scan.index,
            # The new segment's state goes on from the scan's, so the side index gets a copy.
            LogState.decode(scan.state.encode()),
        )
        return _Recovered(sealed, side, scan.committed, scan.state, tail)

    async def _scan(self, files: Readable, last: Segment, path: str, length: int) -> SegmentScan:
        context = self._context
        try:
            header = await read_segment_header(files, path)
        except CorruptLog as error:
            # It was registered, so a commit of this header had returned.
            raise CorruptLog(f"{name_of(self._key)}: {error}") from error
        index = SparseIndex(context.limits.index_interval_bytes)
        scan = SegmentScan(header.seed, last.base_offset, index)
        await scan_segment(files, path, scan, length)
        if not scan.state_end:
            raise CorruptLog(self._place(path, scan))
        return scan

    async def _start_lost_by_power(self, path: str, length: int) -> bool:
        """Whether a flushed segment's first page never reached the disk: zeros, or cut short."""
        if self._settings.durability is not Durability.FLUSHED:
            return False
        raw = await self._context.files.read(path, position=0, bytes_max=_START_BYTES)
        first_bytes = SEGMENT_HEADER_BYTES + BLOCK_HEADER_BYTES
        if length < first_bytes or _ZEROS in raw or not any(raw[:first_bytes]):
            return True
        return raw.startswith(SEGMENT_MAGIC) and block_end(raw, SEGMENT_HEADER_BYTES) > length

    async def _without(
        self, versioned: VersionedManifest, last: Segment, error: CorruptLog
    ) -> _Recovered:
        """Go on as if the last segment, whose start a power loss took, had held nothing."""
        context = self._context
        context.counters.truncated += 1
        _log.warning("log-truncated: %s; flushed messages were lost with it", error)
        state = await last_state(context, self._key, versioned.manifest.with_last_sealed(None))
        return _Recovered(None, None, last.base_offset, state, [])

    async def _check_damage(
        self, versioned: VersionedManifest, scan: SegmentScan, path: str, length: int
    ) -> None:
        """Tell a torn tail from damage: a valid block behind it knows more to be committed."""
        context = self._context
        acknowledged, behind = scan.committed, length
        async for found in valid_blocks(context.files, path, scan.seed, scan.position + 1, length):
            behind = min(behind, found.position)
            acknowledged = max(acknowledged, found.header.committed)
        if acknowledged <= scan.next_offset:
            return
        if self._settings.durability is Durability.FLUSHED:
            raw = await context.files.read(
                path, position=scan.position, bytes_max=min(behind - scan.position, 1 << 20)
            )
            # Pages that a power loss took before they were written, the first of them in part.
            sector_rest = raw[: -scan.position % len(_ZEROS)]
            if _ZEROS in raw or (sector_rest and not any(sector_rest)):
                context.counters.truncated += 1
                _log.warning(
                    "log-truncated: %s: flushed messages from offset %d to %d were lost",
                    self._place(path, scan),
                    scan.next_offset,
                    acknowledged - 1,
                )
                return
        context.counters.corrupt += 1
        view = SegmentView(path, scan.seed, versioned.manifest.segments[-1].base_offset, scan.index)
        view.show_to(acknowledged, length)
        self._claim.damaged(versioned, view)
        raise CorruptLog(f"{self._place(path, scan)}; acknowledged below offset {acknowledged}")

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


async def _delete_orphans(
    context: LogContext, key: PartitionKey, manifest: Manifest, present: Sequence[str]
) -> None:
    """Delete what former owners left behind; check that every registered segment is there.

    Raises: CorruptLog: a file of this epoch or a later one exists, so the manifest is older than
    the files, or a registered segment is missing.
    """
    named = {segment.path(key) for segment in manifest.segments}
    kept = named | {index_path(path) for path in named}
    if manifest.state_of is not None:
        log_path = segment_path(key.topic_uuid, key.partition, *manifest.state_of)
        kept.add(index_path(log_path))
    kept.update(path for _, path in context.pending_deletions)
    orphans = []
    for path in present:
        parsed = parse_file_name(path)
        if parsed is None or path in kept:
            continue
        if parsed[1] >= manifest.epoch:
            raise CorruptLog(
                f"{name_of(key)}: file {path} is of epoch {parsed[1]}, the manifest only of "
                f"{manifest.epoch}: the coordination data was rolled back"
            )
        orphans.append(path)
    missing = sorted(named.difference(present))
    if missing:
        raise CorruptLog(f"{name_of(key)}: segment file {missing[0]} is missing")
    for path in orphans:
        try:
            await context.files.delete(path)
        except TalosError as error:
            _log.warning("orphan %s was not deleted: %s", path, error)

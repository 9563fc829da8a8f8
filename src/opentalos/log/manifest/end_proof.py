"""What proves how far a log reaches, beside its manifest: compared before the end is believed.

The manifest says where the log ends. The last segment's file, its side index, metering and the
positions of consumer groups say how far it reached at least. If any says more, a store came back
older or shorter than it was: the partition is refused, so no offset is given twice (I1, I3).
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from opentalos.log.context import LogContext
from opentalos.log.manifest.leftovers import (
    LENGTH_MAX,
    Leftovers,
    check_epochs,
    held_segments,
    rolled_back,
    split,
)
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import VersionedManifest
from opentalos.log.partition.queue import name_of
from opentalos.log.partition.state import State
from opentalos.log.segment.format import BLOCK_HEADER_BYTES, index_path
from opentalos.log.segment.scan import valid_blocks
from opentalos.log.segment.view import read_segment_header, read_side_index
from opentalos.model.errors import (
    DAMAGE,
    CorruptLog,
    NotFound,
    PartitionNotServing,
    TalosError,
    Unavailable,
)
from opentalos.model.message import Durability, PartitionKey
from opentalos.ports.file_store import FileStore

_log = logging.getLogger(__name__)


async def check_sealed(
    context: LogContext, key: PartitionKey, versioned: VersionedManifest
) -> None:
    """Of a log that no opening recovers. Raises: CorruptLog: it was longer, or a file is missing.
    NewerFormat: a file cannot be read. TalosError: not known.
    """
    manifest = versioned.manifest
    await context.journals_known()
    present = await context.files.list(f"{key.topic_uuid}/{key.partition}")
    check_epochs(key, manifest, [*present, *held_segments(context, key)])
    check_present(key, manifest, present)
    await check_last_segment(context.files, key, manifest)
    unnamed = split(key, manifest, present, context.pending_deletions)
    leftovers = Leftovers(context, key, manifest)
    await leftovers.judge(unnamed, manifest.sealed_next, may_be_cut=False)
    await check_reached(context, key, manifest, manifest.sealed_next)
    leftovers.warn(manifest.sealed_next)


def check_present(key: PartitionKey, manifest: Manifest, present: Sequence[str]) -> None:
    """Raises: CorruptLog: a registered segment is missing. Journals may have a late one."""
    named = {segment.path(key) for segment in manifest.segments}
    if manifest.late and manifest.unsealed is not None:
        named.discard(manifest.unsealed.path(key))
    missing = sorted(named.difference(present))
    if missing:
        raise CorruptLog(f"{name_of(key)}: segment file {missing[0]} is missing")


async def check_last_segment(files: FileStore, key: PartitionKey, manifest: Manifest) -> None:
    """Compare the last sealed segment and its side index with the manifest.

    Raises: CorruptLog: they say more, or the file ends early.
    """
    if not manifest.segments or manifest.unsealed is not None:
        return
    last, end = manifest.segments[-1], manifest.sealed_next
    path = last.path(key)
    try:
        raw = await files.read(path, position=last.bytes - 1, bytes_max=1 + BLOCK_HEADER_BYTES)
    except NotFound as error:
        raise CorruptLog(f"{name_of(key)}: segment file {path} is missing") from error
    if not raw:
        raise CorruptLog(f"{name_of(key)}: {path} ends before its {last.bytes} bytes")
    if manifest.accepts_loss(last.epoch):
        return
    if len(raw) > 1:
        await _check_behind(files, key, last, end)
    side = await read_side_index(files, index_path(path), BLOCK_HEADER_BYTES)
    if side is None or (side.base_offset, side.epoch) != (last.base_offset, last.epoch):
        return
    if side.next_offset > end:
        raise CorruptLog(_short(key, end, index_path(path), side.next_offset))


async def _check_behind(files: FileStore, key: PartitionKey, last: Segment, end: int) -> None:
    """Raises: CorruptLog: a block behind the segment's end continues the log, or proves that it was
    committed. A crash leaves neither: what it left whole was copied into the next segment. But
    a loss of power may take what was only flushed, and leave later blocks.
    """
    path = last.path(key)
    header = await read_segment_header(files, path)
    synced = header.durability is Durability.SYNCED
    async for found in valid_blocks(files, path, header.seed, last.bytes, LENGTH_MAX):
        follows = found.position == last.bytes and found.header.base_offset >= end
        if (synced and found.header.committed > end) or (follows and found.header.messages):
            raise CorruptLog(_short(key, end, path, found.header.next_offset))


def check_known(key: PartitionKey, manifest: Manifest, end: int) -> None:
    """Raises: CorruptLog: the manifest itself knows of messages behind ``end``."""
    metered = 0 if manifest.metered is None else manifest.metered.offset
    if metered > end:
        raise CorruptLog(_short(key, end, "what was metered", metered))
    if manifest.first > end:
        raise CorruptLog(_short(key, end, "what was deleted for readers", manifest.first))


async def check_reached(
    context: LogContext, key: PartitionKey, manifest: Manifest, end: int
) -> bool | None:
    """Whether a loss of power took messages that groups had read; None: unknown.

    Raises: CorruptLog: metering, a deletion or a consumer group was further than ``end``.
    """
    check_known(key, manifest, end)
    if manifest.cut:
        return True
    try:
        read = await context.read_by_groups(key)
    except TalosError as error:
        _log.warning("%s: positions of groups are not compared: %s", name_of(key), error)
        return manifest.cut
    if read <= end:
        return False
    text = _short(key, end, "the position of a consumer group", read)
    if manifest.cut is None:  # an earlier version noted no losses, so it proves nothing
        _log.warning("%s, unless a loss of power took flushed messages before the upgrade", text)
        return True
    raise CorruptLog(text)


def _short(key: PartitionKey, end: int, what: str, next_offset: int) -> str:
    return (
        f"{name_of(key)}: the log ends at offset {end}, but {what} says that it reached "
        f"{next_offset}: {rolled_back()}"
    )


class SealedLog(Protocol):
    """The writer of a log that no opening recovers; it gets what was found."""

    @property
    def state(self) -> State: ...
    @property
    def versioned(self) -> VersionedManifest: ...
    def end_is_proven(self) -> None:
        """Nothing says that the log was longer."""
        ...

    def manifest_changed(self) -> None:
        """Another server has opened the log."""
        ...

    def found_damaged(self, error: TalosError) -> None:
        """Something proves that the log was longer."""
        ...


class SealedEnd:
    """Compares the end of one sealed log, once for all readers that wait for it."""

    __slots__ = ("_context", "_key", "_log", "_proving")

    def __init__(self, context: LogContext, key: PartitionKey, log: SealedLog) -> None:
        self._context, self._key, self._log = context, key, log
        self._proving: asyncio.Task[None] | None = None

    async def prove(self) -> None:
        """Tell the writer whether the end is proven, or the log damaged. Raises: TalosError: it is
        not known.
        """
        if self._proving is None:
            proving = self._prove(self._log.versioned)
            self._proving = asyncio.get_running_loop().create_task(proving, name="log-end-proof")
            self._proving.add_done_callback(self._ended)
        await asyncio.shield(self._proving)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._proving = None
        if not task.cancelled():
            task.exception()  # whoever waits has it, too

    async def _prove(self, versioned: VersionedManifest) -> None:
        log, manifests = self._log, self._context.manifests
        try:
            await check_sealed(self._context, self._key, versioned)
        except DAMAGE as error:
            try:
                changed = (await manifests.load(self._key)).version != versioned.version
            except Unavailable as unknown:
                text = f"{name_of(self._key)}: no manifest: {unknown}"
                raise PartitionNotServing(text) from unknown
            if not self._is_sealed_as(versioned):
                return  # it is open here by now, and the opening has compared the same
            if changed:  # another server has opened it
                log.manifest_changed()
                return
            log.found_damaged(error)  # what is whole can be read; its end is not that of the log
            return
        if self._is_sealed_as(versioned):
            log.end_is_proven()

    def _is_sealed_as(self, versioned: VersionedManifest) -> bool:
        return self._log.state is State.SEALED and self._log.versioned is versioned

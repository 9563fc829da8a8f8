"""Files of a partition that its manifest does not name: what a crash left, or good segments.

A roll and an opening make a file before the manifest names it, so a crash leaves files whose
messages nobody acknowledged. A manifest that came back older (a copy that was put back, changes
that the store lost) does not name segments either, and these are good. The files distinguish them
by their witnesses:

- A file begins where the log was durable when it was made. Only a flushed log can end before it.
- A block names how far the log was committed when it was written. Above the file's own beginning,
  that proves that the file was registered: nothing is committed in it before.

A witness beyond the end of the log that the manifest gives proves that the manifest is older: the
partition is refused and nothing is deleted. Messages beyond that end without a witness are set
aside (``aside``). Everything else is deleted. Promises I1 and I3.
"""

import logging
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple

from opentalos.log.context import LogContext
from opentalos.log.journal.laid_over import LaidOver
from opentalos.log.journal.store import held_by_formers, of_formers
from opentalos.log.manifest.aside import set_aside
from opentalos.log.manifest.manifest import Manifest
from opentalos.log.partition.queue import name_of
from opentalos.log.segment.format import (
    NUMBER_PREFIX,
    index_path,
    is_segment_of,
    parse_file_name,
    partition_and_epoch,
    segment_path,
)
from opentalos.log.segment.index import SparseIndex
from opentalos.log.segment.scan import Readable, SegmentScan, scan_to_end, valid_blocks
from opentalos.log.segment.view import read_segment_header
from opentalos.model.errors import CorruptLog, NotFound, TalosError
from opentalos.model.message import Durability, PartitionKey

_log = logging.getLogger(__name__)

NAMED_MAX = 5  # files in the text of an error
NO_OFFSET = -1
LENGTH_MAX = 1 << 62  # of a file that is read to its end, wherever that is
INDEX_INTERVAL_BYTES = 1 << 30  # nobody searches in it


class Found(NamedTuple):
    """What a file says that no manifest names."""

    path: str
    empty: bool
    base_offset: int = NO_OFFSET  # no whole header: not known
    committed: int = NO_OFFSET  # the largest of its blocks
    next_offset: int = NO_OFFSET  # after its last whole block

    @property
    def registered(self) -> bool:
        """Whether a block proves that a manifest has named it."""
        return self.committed > self.base_offset


class Verdict(Enum):
    """What a file is, beside the log that the manifest gives."""

    NEWER = "of a newer manifest"
    UNPROVEN = "with messages that nothing proves to be acknowledged"
    NEEDLESS = "without anything that the log lacks"


def judge(found: Found, end: int, *, may_be_cut: bool, accepted: bool = False) -> Verdict:
    """What the file is, if the log ends at the offset ``end``.

    ``may_be_cut``: a loss of power may have taken flushed messages before the file's beginning.
    ``accepted``: an operator has accepted that the log lacks what the file proves.
    """
    if found.base_offset == NO_OFFSET:
        return Verdict.NEEDLESS if found.empty else Verdict.UNPROVEN
    if found.registered:  # its last group may have no witness of its own
        newer = max(found.committed, found.next_offset) > end
    else:
        newer = found.base_offset > end and not may_be_cut
    if newer and not accepted:
        return Verdict.NEWER
    return Verdict.UNPROVEN if newer or found.next_offset > end else Verdict.NEEDLESS


class Unnamed(NamedTuple):
    """The files of a partition's folder that its manifest does not name."""

    doubtful: list[str]  # segments that may lie behind the log's end
    needless: list[str]


def split(
    key: PartitionKey, manifest: Manifest, present: Iterable[str], pending: Iterable[str] = ()
) -> Unnamed:
    """Sort out by their names the files that ``manifest`` does not name; ``pending`` are known.

    A file that begins before the last segment only repeats what the segments have.
    """
    named = {segment.path(key) for segment in manifest.segments}
    kept = named | {index_path(path) for path in named} | set(pending)
    if manifest.state_of is not None:
        kept.add(index_path(segment_path(key.topic_uuid, key.partition, *manifest.state_of)))
    found = Unnamed([], [])
    for path in present:
        parsed = parse_file_name(path)
        if parsed is None or path in kept:
            continue
        base, _, suffix = parsed
        numbered = path.rpartition("/")[2].startswith(NUMBER_PREFIX)
        doubtful = suffix == "log" and (numbered or base >= least_base(manifest))
        (found.doubtful if doubtful else found.needless).append(path)
    return found


def least_base(manifest: Manifest) -> int:
    """No file that begins before it has anything that the log lacks."""
    return manifest.segments[-1].base_offset if manifest.segments else manifest.start


def check_epochs(key: PartitionKey, manifest: Manifest, present: Iterable[str]) -> None:
    """Raises: CorruptLog: a segment is of a later epoch than the manifest, which so is older."""
    for path in present:
        parsed = parse_file_name(path)
        if parsed is not None and parsed[1] > manifest.epoch:
            text = f"file {path} is of epoch {parsed[1]}, the manifest only of {manifest.epoch}"
            raise CorruptLog(f"{name_of(key)}: {text}: {rolled_back()}")


def held_segments(context: LogContext, key: PartitionKey) -> list[str]:
    """Segments of the partition that a journal has, which may have no file."""
    return sorted(held_by_formers(context.journaled, f"{key.topic_uuid}/{key.partition}"))


def rolled_back() -> str:
    """What happened, and what to do."""
    return (
        "a store was rolled back, or restored from an older copy; nothing is deleted; "
        "talos log verify lists the files, talos log repair adopts them"
    )


async def examine(files: Readable, path: str) -> Found:
    """Read a file as it is now, with what its journal has of it.

    Without a fence: what was acknowledged can be read, and a writer that lives acknowledges nothing
    more, since another process has claimed the partition.
    """
    try:
        header = await read_segment_header(files, path)
    except CorruptLog:
        return Found(path, await _is_empty(files, path))
    if not is_segment_of(header, path):  # it proves nothing of this log
        return Found(path, empty=False)
    scan = SegmentScan(header.seed, header.base_offset, SparseIndex(INDEX_INTERVAL_BYTES))
    await scan_to_end(files, path, scan)
    committed, next_offset = scan.committed, scan.next_offset
    async for block in valid_blocks(files, path, header.seed, scan.position + 1, LENGTH_MAX):
        if header.durability is Durability.SYNCED:  # else a loss of power may have taken pages
            committed = max(committed, block.header.committed)
        next_offset = max(next_offset, block.header.next_offset)
    return Found(path, False, header.base_offset, committed, next_offset)


async def _is_empty(files: Readable, path: str) -> bool:
    try:
        return not await files.read(path, position=0, bytes_max=1)
    except NotFound:
        return True


class Leftovers:
    """Judges the files that the manifest does not name, of one opening."""

    def __init__(self, context: LogContext, key: PartitionKey, manifest: Manifest) -> None:
        self.key = key
        self._context, self._manifest = context, manifest
        self._unproven: list[tuple[Found, Readable]] = []

    async def judge(self, unnamed: Unnamed, end: int, *, may_be_cut: bool) -> None:
        """Refuse what is newer, set aside what is unproven, let the rest be deleted.

        Raises: CorruptLog: the manifest is older than its files. TalosError: not known.
        """
        context = self._context
        newer: list[Found] = []
        for path in [*unnamed.doubtful, *self._in_journals(unnamed.doubtful)]:
            files = await self._with_journal(path)
            found = await examine(files, path)
            if NO_OFFSET < found.base_offset < least_base(self._manifest):
                continue
            accepted = self._manifest.accepts_loss(partition_and_epoch(path)[1])
            verdict = judge(found, end, may_be_cut=may_be_cut, accepted=accepted)
            if verdict is Verdict.NEWER:
                newer.append(found)
            elif verdict is Verdict.UNPROVEN:
                self._unproven.append((found, files))
            if may_be_cut and found.base_offset > end and verdict is not Verdict.NEWER:
                context.counters.truncated += 1
                _log.warning(
                    "log-truncated: %s: flushed messages from offset %d to %d were lost",
                    *(name_of(self.key), end, found.base_offset - 1),
                )
        if newer:
            context.counters.corrupt += 1
            raise CorruptLog(older_text(self.key, newer, end))

    def warn(self, end: int) -> None:
        """Say what lies behind ``end``, before readers get it as the log's end and while nothing
        is opened.
        """
        for found, _ in self._unproven:
            _log.warning(
                "log-unproven: %s: nothing proves that its messages behind offset %d were "
                "acknowledged; the next opening sets it aside",
                *(found.path, end - 1),
            )

    async def settle(self, unnamed: Unnamed) -> None:
        """The log continues at the end that was judged: set aside and delete what it has no use
        for. Raises: TalosError: call again.
        """
        context = self._context
        for found, files in self._unproven:
            await set_aside(context, files, found.path)
        self._unproven.clear()
        for path in self._in_journals(()):
            context.journaled.settle(path)
        orphans = [*unnamed.doubtful, *unnamed.needless]
        if orphans:
            context.background.start(partial(_delete_orphans, context, orphans))

    def _in_journals(self, known: Sequence[str]) -> list[str]:
        """Segments that only journals have, and that the manifest does not name."""
        named = {segment.path(self.key) for segment in self._manifest.segments}
        return sorted(set(held_segments(self._context, self.key)).difference(named, known))

    async def _with_journal(self, path: str) -> Readable:
        """The file with what journals have of it."""
        files = self._context.files
        extents = await of_formers(self._context.journaled, path)
        return files if extents is None else LaidOver(files, extents, 0)


def older_text(key: PartitionKey, newer: Sequence[Found], end: int) -> str:
    """Why the manifest is older than these files."""
    files = ", ".join(
        f"{found.path} (from offset {found.base_offset} to {found.next_offset - 1})"
        for found in newer[:NAMED_MAX]
    )
    more = f" and {len(newer) - NAMED_MAX} more" if len(newer) > NAMED_MAX else ""
    return (
        f"{name_of(key)}: the manifest ends the log at offset {end}, but acknowledged messages "
        f"lie behind it in {files}{more}: {rolled_back()}"
    )


async def _delete_orphans(context: LogContext, orphans: Sequence[str]) -> None:
    """Beside the opening: each may take seconds to be fenced, and no manifest names it."""
    for path in orphans:
        try:
            await context.files.delete(path)
        except TalosError as error:
            _log.warning("orphan %s was not deleted: %s", path, error)

"""The open segment of a partition: forming groups, creating and sealing its file.

``PartitionWriter`` appends to it; the opening creates it; the jobs seal it. Promises: offsets and
append times are given here, densely and in order (I3), and nothing counts as durable before the
file's length confirms the commit (I1).
"""

import asyncio
import logging
import struct
from collections import deque
from typing import NamedTuple

from opentalos.log.context import LogContext
from opentalos.log.journal.journaled_file import JournaledFile
from opentalos.log.manifest.manifest import Segment
from opentalos.log.manifest.store import NOTHING
from opentalos.log.results import AppendWaiter
from opentalos.log.segment.encrypted_format import plain_bytes
from opentalos.log.segment.format import (
    FLAG_PRODUCER_FENCE,
    BlockPlace,
    SegmentHeader,
    encode_block,
    end_mark_block,
    index_path,
    segment_path,
    state_block,
)
from opentalos.log.segment.index import SideIndex, SparseIndex
from opentalos.log.segment.next_file import FILES_AHEAD_MAX, NewFile, NextFile
from opentalos.log.segment.state_format import LogState
from opentalos.log.segment.view import SegmentView, store_side_index
from opentalos.log.tail_cache import CACHED_BLOCK_BYTES, CachedBlock
from opentalos.model.errors import BadRequest, OutcomeUnknown, TalosError
from opentalos.model.limits import LogLimits
from opentalos.model.message import ENCRYPTED, BaseOffset, Durability, MessageBlock, PartitionKey

_log = logging.getLogger(__name__)

SEED_BYTES = 4
# What packing a value raises whose type or range no check has seen.
ENCODING_ERRORS = (struct.error, TypeError, ValueError, OverflowError)

Queued = tuple[MessageBlock, AppendWaiter, int]  # the int: bytes it counts as pending
Entry = tuple[MessageBlock, AppendWaiter, int, BaseOffset]  # and the base offset it was given
Tail = list[tuple[MessageBlock, int, int, int]]  # block, base offset, append ms, flags


class Group:
    """The blocks of one commit. Plain lists: this is made 10,000 times a second."""

    __slots__ = (
        "answered",
        "bytes",
        "chunks",
        "entries",
        "followers",
        "index_position",
        "messages",
        "next_offset",
        "payload_bytes",
        "pending_bytes",
        "stored",
        "stored_bytes",
    )

    def __init__(self, next_offset: int) -> None:
        self.chunks: list[bytes | memoryview] = []
        self.entries: list[Entry] = []  # in the file with this commit
        self.followers: list[Entry] = []  # duplicates of an entry of this very group
        # These need no commit.
        self.answered: list[tuple[AppendWaiter, BaseOffset, TalosError | None]] = []
        self.stored: list[CachedBlock] = []  # for the tail cache
        self.next_offset = next_offset
        self.index_position = 0  # from which on the index takes the next block
        self.messages = 0
        self.bytes = 0
        self.payload_bytes = 0  # as producers sent them
        self.stored_bytes = 0  # what ``stored`` counts in the tail cache
        self.pending_bytes = 0  # of everything taken from the queue

    @property
    def blocks(self) -> int:
        """Blocks taken from the queue."""
        return len(self.entries) + len(self.followers) + len(self.answered)

    def keep_found(self, next_offset: int) -> list[Queued]:
        """Keep what lies in a log that ends at ``next_offset``; return the rest, in order.

        A zero-message block cannot be recognised by its offset: it goes into the rest.
        """
        self.entries, lost = _found(self.entries, next_offset)
        self.followers, lost_followers = _found(self.followers, next_offset)
        lost += lost_followers
        self.pending_bytes -= sum(entry[2] for entry in lost)
        return [(block, waiter, size) for block, waiter, size, _ in lost]

    def recovered(self, next_offset: int) -> None:
        """What is left lies in the new segment, counted and cached with its tail already."""
        self.bytes = self.messages = self.stored_bytes = 0
        self.stored = []
        self.next_offset = next_offset

    def refuse_verdicts(self, refused: TalosError) -> None:
        """Answer ``refused`` where the producer table gave another error."""
        self.answered = [
            (waiter, base, answer and refused) for waiter, base, answer in self.answered
        ]


def _found(entries: list[Entry], next_offset: int) -> tuple[list[Entry], list[Entry]]:
    """Entries that lie in a log which ends at ``next_offset``, and those that do not."""
    found = [e for e in entries if e[0].messages and e[3] + e[0].messages <= next_offset]
    lost = [e for e in entries if not e[0].messages or e[3] + e[0].messages > next_offset]
    return found, lost


class OpenSegment:
    """A segment this process may append to, with the log state at its end.

    ``fill`` forms a group: offsets, append time, index entries and the producer table move at
    once, ahead of the file. ``committed`` follows when the file has the group, and only then do
    the bounds that readers use move. After a failed commit the whole object is given up: what
    ``fill`` changed is rebuilt from storage by the next opening.
    """

    __slots__ = (
        "durability",
        "epoch",
        "file",
        "first_position",
        "marked_position",
        "next_file",
        "number",
        "opened_s",
        "state",
        "view",
        "witnessed",
    )

    def __init__(self, new: NewFile, view: SegmentView, start: "SegmentStart") -> None:
        self.file, self.view, self.epoch, self.state = new.file, view, start.epoch, start.state
        self.durability = new.durability  # of every commit
        self.number = new.number  # in the file's name
        self.next_file: NextFile | None = None  # made ahead
        self.first_position = view.end_position  # after the state block
        self.marked_position = view.end_position  # up to which an end mark proves the commits
        self.witnessed = False  # a block proves that the file was registered
        self.opened_s = asyncio.get_running_loop().time()

    @property
    def empty(self) -> bool:
        """Whether no block was written into it yet."""
        return self.view.end_position == self.first_position

    @property
    def marked(self) -> bool:
        """Whether nothing was committed behind the last end mark."""
        return self.view.end_position == self.marked_position

    @property
    def has_messages(self) -> bool:
        """Whether the next segment would begin at another offset: announcements take none."""
        return self.view.next_offset > self.view.base_offset

    @property
    def journal(self) -> str:
        """The journal that may hold the end of it; empty: none."""
        return self.file.journal.name if isinstance(self.file, JournaledFile) else ""

    @property
    def late(self) -> bool:
        """Whether its file does not exist yet: the journal has all of it."""
        return isinstance(self.file, JournaledFile) and self.file.late

    @property
    def tail_bytes(self) -> int:
        """What a recovery would copy because of a journal."""
        return self.file.tail_bytes if isinstance(self.file, JournaledFile) else 0

    def distrust(self) -> None:
        """Its next commits risk no other partition's groups."""
        if isinstance(self.file, JournaledFile):
            self.file.distrust()

    async def reserve(self) -> None:
        """Wait until its file may be open, if it has none yet."""
        if isinstance(self.file, JournaledFile):
            await self.file.reserve()

    async def write_out(self) -> None:
        """Make the file itself hold all that was committed. Raises: TalosError: it is dead."""
        if isinstance(self.file, JournaledFile):
            await self.file.write_out()

    async def write_mark(self, *, last: bool = False) -> None:
        """Write a block that says up to where the log is committed, unless one does.

        ``last``: with it the file itself holds everything, and its close follows, which makes the
        mark durable. Raises: TalosError: it is dead.
        """
        if self.marked:
            return
        offset = self.view.next_offset
        place = BlockPlace(self.view.seed, offset, self.state.last_append_ms)
        mark = end_mark_block(offset, place)
        if not last:
            length = await self.file.commit([mark])
        elif isinstance(self.file, JournaledFile):
            length = await self.file.write_through([mark])
        else:
            length = await self.file.commit([mark], durability=Durability.FLUSHED)
        self._mark_written(len(mark), length)

    def make_next(self, context: LogContext, key: PartitionKey) -> None:
        """Make the file of the next segment ahead, in the background."""
        if self.next_file is None and context.files_ahead < FILES_AHEAD_MAX:
            self.next_file = NextFile(context, key, self.epoch, self.durability)

    def fill(
        self,
        group: Group,
        queue: deque[Queued],
        limits: LogLimits,
        now_ms: int,
        *,
        alone: bool = False,
    ) -> None:
        """Take blocks from the queue and give them offsets and one append time.

        At least one block is taken; each leaves the queue once it is in the group. ``committed``
        is the high watermark, since one commit is under way at a time. ``alone``: one block only.
        A block that cannot be encoded is answered so, and nothing of it is in the group.
        """
        view, state = self.view, self.state
        place = BlockPlace(view.seed, view.next_offset, max(now_ms, state.last_append_ms))
        bytes_left = limits.group_bytes_max
        blocks_left = limits.group_blocks_max if limits.group_commit and not alone else 1
        while queue and blocks_left > 0:
            queued = queue[0]
            size = queued[2]
            if size > bytes_left and group.entries:
                break
            if queued[0].producer is None or self._admit(group, queued, place.committed):
                try:
                    self._add(group, queued, place)
                except ENCODING_ERRORS as error:
                    refused = BadRequest(f"the block cannot be stored: {error}")
                    group.answered.append((queued[1], -1, refused))
                bytes_left -= size
                blocks_left -= 1
            queue.popleft()
            group.pending_bytes += size
        if group.entries:
            state.last_append_ms = place.append_ms

    def _add(self, group: Group, queued: Queued, place: BlockPlace) -> None:
        block, waiter, size = queued
        base = group.next_offset
        payload, messages, compression, create_ms, payload_format, principal, extras, stamp = block
        # First of all: if it raises, nothing has changed.
        encoded = encode_block(block, base, place, 0 if messages else FLAG_PRODUCER_FENCE)
        if stamp is not None:
            self.state.producers.note(principal, stamp, messages, base)
        position = self.view.end_position + group.bytes
        if position >= group.index_position:
            index = self.view.index
            index.add(base, position, place.append_ms)
            group.index_position = index.positions[-1] + index.interval_bytes
        group.chunks += (encoded, payload)
        group.entries.append((block, waiter, size, base))
        group.bytes += size
        group.payload_bytes += len(payload) if payload_format < ENCRYPTED else plain_bytes(payload)
        group.messages += messages
        group.next_offset = base + messages
        if messages:
            group.stored_bytes += size + CACHED_BLOCK_BYTES
            group.stored.append(
                (
                    base,
                    messages,
                    place.append_ms,
                    create_ms,
                    compression,
                    payload_format,
                    payload,
                    extras,
                )
            )

    def _admit(self, group: Group, queued: Queued, committed: int) -> bool:
        """Ask the producer table; False: answered without a block of its own."""
        block, waiter, size = queued
        stamp = block.producer
        if stamp is None:
            return True
        table = self.state.producers
        verdict = table.check(block.principal, stamp, block.messages, block.format)
        if verdict is None:
            return True
        if isinstance(verdict, TalosError):
            group.answered.append((waiter, -1, verdict))
        elif verdict >= committed:
            group.followers.append((block, waiter, size, verdict))
        else:
            group.answered.append((waiter, verdict, None))
        return False

    def committed(self, group: Group, length: int) -> None:
        """The commit of ``group`` returned: its messages are durable and may be shown.

        Raises: OutcomeUnknown if the file is not as long as this writer made it.
        """
        view = self.view
        expected = view.end_position + group.bytes
        if length != expected:
            raise OutcomeUnknown(f"{view.path}: {length} bytes long, {expected} were written")
        self.witnessed = self.witnessed or view.next_offset > view.base_offset
        view.end_position = length
        view.next_offset = group.next_offset
        self.state.total_bytes += group.bytes

    def _mark_written(self, count_bytes: int, length: int) -> None:
        """The end mark is in the file. Raises: OutcomeUnknown as ``committed``."""
        view = self.view
        if length != view.end_position + count_bytes:
            raise OutcomeUnknown(f"{view.path}: {length} bytes long after an end mark")
        view.end_position = self.marked_position = length
        self.witnessed = True
        self.state.total_bytes += count_bytes


class SegmentStart(NamedTuple):
    """Where a new segment begins: the log state there and the tail it copies from the old one."""

    epoch: int
    base_offset: int
    state: LogState
    tail: Tail


async def create_segment(
    context: LogContext, key: PartitionKey, durability: Durability, start: SegmentStart
) -> OpenSegment:
    """Make a segment file with its header, state block and tail, in one commit.

    Nothing of it may be acknowledged or shown before a manifest names it. ``start.state``
    becomes the state after the tail. A file's first commit is synced whatever its durability, so
    a copied tail is as safe as it may have been acknowledged before.
    """
    path = segment_path(key.topic_uuid, key.partition, start.base_offset, start.epoch)
    try:
        file = await context.files.create(path, durability=durability)
        segment, chunks = begin_segment(context, key, NewFile(file, path, durability), start)
        length = await file.commit(chunks)
    except TalosError:
        await delete_if_gone(context, key, path)
        raise
    if length != segment.view.end_position:
        raise OutcomeUnknown(
            f"{path}: {length} bytes long, {segment.view.end_position} were written"
        )
    context.note_written(length)
    return segment


async def file_after(
    context: LogContext, key: PartitionKey, old: OpenSegment, durability: Durability
) -> NewFile:
    """An empty file for the segment after ``old``: the one made ahead, or a new one."""
    ahead, old.next_file = old.next_file, None
    made = None if ahead is None else ahead.take(durability)
    if made is not None:
        return made
    path = segment_path(key.topic_uuid, key.partition, old.view.next_offset, old.epoch)
    try:
        return NewFile(await context.files.create(path, durability=durability), path, durability)
    except TalosError:
        await delete_if_gone(context, key, path)
        raise


def begin_segment(
    context: LogContext, key: PartitionKey, new: NewFile, start: SegmentStart
) -> tuple[OpenSegment, list[bytes | memoryview]]:
    """The segment that ``new`` becomes, and what its first commit has to write before all else."""
    seed = max(int.from_bytes(context.clock.token(SEED_BYTES), "big"), 1)
    base, state = start.base_offset, start.state
    created_ms, version = context.time.append_ms(), context.segment_version
    place_of_file = (seed, start.epoch, base, created_ms, key.partition)
    header = SegmentHeader(*place_of_file, new.durability, version)
    place = BlockPlace(seed, base, state.last_append_ms)
    view = SegmentView(new.path, seed, base, SparseIndex(context.limits.index_interval_bytes))
    head = header.encode() + state_block(state.encode(), base, place)
    chunks: list[bytes | memoryview] = [head]
    view.end_position = len(head)
    segment = OpenSegment(new, view, start)
    length = len(head)
    for block, offset, append_ms, flags in start.tail:
        encoded = encode_block(block, offset, BlockPlace(seed, base, append_ms), flags)
        view.index.add(offset, length, append_ms)
        chunks += (encoded, block.payload)
        length += len(encoded) + len(block.payload)
        view.next_offset = offset + block.messages
        state.last_append_ms = append_ms
        if (stamp := block.producer) is not None:
            state.producers.note(block.principal, stamp, block.messages, offset)
    state.total_bytes += length - len(head)
    view.end_position = length
    return segment, chunks


async def seal_segment(segment: OpenSegment) -> Segment:
    """Close the file; return how the manifest shall name it."""
    view = segment.view
    length = await segment.file.close()
    if length != view.end_position:
        raise OutcomeUnknown(f"{view.path}: {length} bytes long, expected {view.end_position}")
    return sealed_entry(segment)


def sealed_entry(segment: OpenSegment) -> Segment:
    """How the manifest names a segment that gets no further block."""
    view = segment.view
    return Segment(
        view.base_offset,
        segment.epoch,
        view.next_offset,
        view.end_position,
        segment.state.last_append_ms,
        segment.number,
    )


def side_index_of(segment: OpenSegment) -> SideIndex:
    """The side index of a segment that gets no further block."""
    view = segment.view
    return SideIndex(
        view.seed,
        segment.epoch,
        view.base_offset,
        view.next_offset,
        view.end_position,
        view.index,
        segment.state,
    )


async def write_side_index(context: LogContext, log_path: str, side: SideIndex) -> None:
    """Store a side index if possible; without it the segment is scanned when it is needed.

    None is written while the coordination is away: the topic may be deleted meanwhile, and no
    later step would find the file.
    """
    if not context.guard.steady():
        return
    try:
        await store_side_index(context.files, log_path, side)
    except TalosError as error:
        _log.warning("side index of %s was not written: %s", log_path, error)


def write_side_index_soon(
    context: LogContext, key: PartitionKey, log_path: str, side: SideIndex
) -> None:
    """Store the side index of a sealed segment; no put has to wait for it."""

    async def write() -> None:
        try:
            if await _is_gone(context, key):
                return
        except TalosError as error:  # it is scanned when it is needed
            _log.warning("side index of %s is not written: %s", log_path, error)
            return
        await write_side_index(context, log_path, side)
        await delete_if_gone(context, key, index_path(log_path))

    context.background.start(write)


async def delete_if_gone(context: LogContext, key: PartitionKey, path: str) -> None:
    """Delete an own new file if another server has deleted the topic's files meanwhile.

    No later owner would find it. Only this one file: a manifest that is missing for another
    reason must not cost anything else.
    """
    try:
        if await _is_gone(context, key):
            await context.files.delete(path)
    except TalosError as error:
        _log.debug("%s may be left behind: %s", path, error)
        context.schedule_deletion_check(key, path)


async def _is_gone(context: LogContext, key: PartitionKey) -> bool:
    """Whether the topic was deleted, or is being so. Raises: TalosError."""
    versioned = await context.manifests.load(key)
    return versioned is NOTHING or versioned.manifest.deleted

"""One partition's log, as the broker uses it: append, read, offsets, time lookup.

``LogStore.partition`` gives it out. Promises: readers see durable messages only (I4), and an offset
is called out of range only after the manifest confirmed it in the same call (I6).
"""

import asyncio
import logging
import struct
from bisect import bisect_right
from functools import partial

from opentalos.log.context import LogContext
from opentalos.log.manifest.end_proof import SealedEnd
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import ABSENT, VersionedManifest
from opentalos.log.metering.meter import Meter
from opentalos.log.partition.jobs import open_now
from opentalos.log.partition.log_end import last_state
from opentalos.log.partition.ownership_guard import EndProof, SingleServerGuard
from opentalos.log.partition.queue import name_of
from opentalos.log.partition.state import END_CERTAIN, State
from opentalos.log.partition.writer import PartitionWriter
from opentalos.log.results import (
    OFFSET_END,
    OFFSET_START,
    AppendWaiter,
    PartitionStats,
    ReadResult,
)
from opentalos.log.scheduling.read_waiters import Arrivals
from opentalos.log.segment.encrypted_format import (
    decrypt_blocks,
    encrypt_block,
    place_of,
    readable_part,
)
from opentalos.log.segment.format import block_error
from opentalos.log.segment.reader import SegmentReader, Wanted
from opentalos.log.segment.view import SegmentView
from opentalos.model.errors import (
    BadRequest,
    CorruptLog,
    NewerFormat,
    NotFound,
    OffsetOutOfRange,
    PartitionNotServing,
    TalosError,
    Unavailable,
)
from opentalos.model.message import (
    MessageBlock,
    OffsetRange,
    PayloadFormat,
    ProducerStamp,
    StoredBlock,
)

_log = logging.getLogger(__name__)

_READ_ATTEMPTS_MAX = 3  # retention or a roll may move a segment while it is read


class PartitionLog:
    """Appends, reads and offset queries of one partition; opened for writing at its first put.

    A façade over the writer: it changes no state itself. Reads work in every readable state, also
    while the partition re-opens; in other states they wait for the opening, or raise once the
    partition has left this server.
    """

    __slots__ = ("_context", "_place", "_proof", "_sealed_end", "append", "key", "writer")

    def __init__(self, context: LogContext, writer: PartitionWriter) -> None:
        self._context, self.writer, self.key = context, writer, writer.key
        self._place = place_of(writer.key)
        self._proof: EndProof | None = None  # from when it is first needed
        self._sealed_end: SealedEnd | None = None  # likewise
        # ``append(block, waiter)``: queue a block. Raises Unavailable or RequestError: not done,
        # the waiter is not called. A bound method, to save a call on the hot path.
        self.append = writer.append if context.keys is None else self._append_encrypted

    async def read(
        self,
        offset: int,
        *,
        messages_max: int,
        bytes_max: int,
        hold_s: float = 0.0,
        hidden: bool = False,
    ) -> ReadResult:
        """Durable blocks from the one that contains ``offset`` (-1 start, -2 end).

        ``hidden``: also what was deleted for readers, as long as it is stored; for metering.
        At the log's end, waits up to ``hold_s`` for a message, then returns no blocks. Otherwise
        returns at least one. Of a damaged log nobody knows the end: at the end of what is proven
        the damage is raised at once.
        Raises: OffsetOutOfRange, CorruptLog, PartitionNotServing and other Unavailable.
        """
        if offset == OFFSET_START:
            offset = (await self.proven()).start
        elif offset == OFFSET_END:
            offset = (await self.offsets()).next
        deadline_s = asyncio.get_running_loop().time() + hold_s
        wanted = Wanted(offset, messages_max, bytes_max)
        for _ in range(_READ_ATTEMPTS_MAX):
            await self._ready()
            self._check_end_known(offset)
            if offset == self.writer.next_offset:
                await self._arrival(offset, deadline_s)
                self._check_served()
                self._check_end_known(offset)
                if offset == self.writer.next_offset:
                    if not await self._is_end(offset):
                        continue
                    return ReadResult([], self.writer.range())
            if not self._holds(offset, hidden=hidden):
                await self._confirm()
                if not self._holds(offset, hidden=hidden) and offset != self.writer.next_offset:
                    self._check_end_known(offset)
                    start, end = self.writer.range()
                    raise OffsetOutOfRange(
                        f"offset {offset} of {name_of(self.key)}: retained are {start} to {end - 1}"
                    )
                continue
            blocks = await self._blocks(wanted)
            if blocks:
                blocks = await self._decrypted(blocks)
                return ReadResult(blocks, self.writer.range(), self.writer.damage)
        raise PartitionNotServing(f"{name_of(self.key)} changed while it was read")

    def read_cached(self, offset: int, *, messages_max: int, bytes_max: int) -> ReadResult | None:
        """Blocks from memory without waiting, or None: use ``read``."""
        writer = self.writer
        blocks = writer.tail.read(offset, messages_max, bytes_max)
        if blocks is None or offset < writer.versioned.manifest.first:
            return None
        if not decrypt_blocks(blocks, self._context.keys, self._place):
            return None
        self._context.counters.cache_hits += 1
        return ReadResult(blocks, writer.range(), writer.damage)

    async def offsets(self) -> OffsetRange:
        """Retained durable offsets, confirmed against the manifest.

        Raises: CorruptLog: the log is damaged, so nobody knows where it ends; see ``proven``.
        """
        found = await self.proven()
        self._check_end_known(self.writer.next_offset)
        return found

    async def proven(self) -> OffsetRange:
        """Retained offsets that can be read, confirmed against the manifest.

        They are all there are, unless ``damage`` says that others may follow.
        """
        await self._ready()
        await self._confirm()
        return self.writer.range()

    @property
    def damage(self) -> TalosError | None:
        """Why the log's end is not known and nothing is written until a restart; None: it is."""
        return self.writer.damage

    async def stored_start(self) -> int:
        """The start offset of the stored manifest, whoever owns the partition now.

        Raises: PartitionNotServing: it is being deleted, or nobody can say; CorruptLog.
        """
        manifest, version = await self._manifest()
        if manifest.deleted or version == ABSENT:
            raise PartitionNotServing(f"{name_of(self.key)} is deleted, or was never written")
        return manifest.start

    async def offset_at(self, time_ms: int) -> int:
        """First offset appended at or after the time, or the next offset. Raises: CorruptLog."""
        await self.proven()
        try:
            found = await self._find_time(time_ms)
        except (CorruptLog, NotFound):
            await self._confirm()  # a new owner may have dropped the file
            raise
        self._check_end_known(found)
        return found

    async def stats(self) -> PartitionStats:
        """Retained and total amounts; of a damaged log those that are proven, see ``damage``."""
        await self._ready()
        writer = self.writer
        if writer.total_bytes is None and writer.damage is None:
            try:
                state = await last_state(self._context, self.key, writer.versioned.manifest)
            except (CorruptLog, NotFound) as error:
                _log.warning("%s: total bytes are not known: %s", name_of(self.key), error)
            else:
                writer.count_total(state.total_bytes)
        retained_bytes = sum(segment.bytes for segment in writer.versioned.manifest.sealed)
        if writer.view is not None:
            retained_bytes += writer.view.end_position
        total_bytes = retained_bytes if writer.total_bytes is None else writer.total_bytes
        start, end = writer.range()
        return PartitionStats(max(0, end - start), retained_bytes, end, total_bytes)

    async def fence_producer(self, producer_id: int, epoch: int, principal: int = 0) -> None:
        """Refuse older epochs of the principal's producer from now on, durably.

        Raises: ProducerFenced: a newer epoch is known. Unavailable: not done. OutcomeUnknown.
        """
        stamp = ProducerStamp(producer_id, epoch, 0)
        await self._stored(
            MessageBlock(b"", 0, format=PayloadFormat.STATE, principal=principal, producer=stamp)
        )

    def announce(self, block: MessageBlock, waiter: AppendWaiter) -> None:
        """Queue a block without messages that announces a producer's epoch. Raises: as append."""
        self.writer.announce(block, waiter)

    def accepts(self) -> TalosError | None:
        """None, or why this log takes no put any more: the error to answer, not done.

        It never accepts puts again: a partition that comes back to this server has another log.
        """
        return self.writer.refusal()

    def range(self) -> OffsetRange:
        """Retained durable offsets as known here, unconfirmed; see ``proven``."""
        return self.writer.range()

    @property
    def known_range(self) -> OffsetRange | None:
        """``range()`` if the log's end is certain without a question to storage; else None."""
        writer = self.writer
        if not (writer.served and self.settled()):
            return None
        if writer.state is State.SEALED and not writer.end_proven:
            return None  # perhaps it was longer: ``proven`` compares what says so
        return writer.range()

    @property
    def high_watermark(self) -> int:
        """The next offset as known here: every message below it is durable and shown."""
        return self.writer.next_offset

    @property
    def arrivals(self) -> Arrivals:
        """Woken when a message arrives, or when this server serves the partition no more."""
        return self.writer.arrivals

    @property
    def manifest(self) -> Manifest:
        """As this server knows it."""
        return self.writer.versioned.manifest

    @property
    def meter(self) -> Meter | None:
        """What is counted but not metered yet; None: the topic is not metered."""
        return self.writer.meter

    @property
    def served(self) -> bool:
        """Whether this server serves the partition; False once it is handed off or deleted."""
        return self.writer.served

    def settled(self) -> bool:
        """Whether the log's end is certain: no commit is in flight and no recovery runs."""
        return self.writer.state in END_CERTAIN and self.writer.group is None

    @property
    def epoch(self) -> int:
        """The epoch of the manifest that this server knows; 0: none."""
        return self.writer.versioned.manifest.epoch

    # --- inside ---------------------------------------------------------------------------------

    def _append_encrypted(self, block: MessageBlock, waiter: AppendWaiter) -> None:
        """``append`` of a server that has keys."""
        keys, writer = self._context.keys, self.writer
        key = None if keys is None else keys.current(writer.settings.tenant)
        if key is not None:
            try:
                block = encrypt_block(block, key, self._place)
            except struct.error as error:
                raise BadRequest(block_error(block) or "the block cannot be stored") from error
        writer.append(block, waiter)

    async def _decrypted(self, blocks: list[StoredBlock]) -> list[StoredBlock]:
        """As their producers sent them. Raises: PartitionNotServing, CorruptLog."""
        keys = self._context.keys
        if not decrypt_blocks(blocks, keys, self._place):
            if keys is not None:  # another server may have made the key a moment ago
                await keys.refresh(self.writer.settings.tenant)
            if not decrypt_blocks(blocks, keys, self._place):
                return readable_part(blocks, keys, name_of(self.key))
        return blocks

    async def _find_time(self, time_ms: int) -> int:
        for segment in self.writer.versioned.manifest.sealed:
            if segment.last_append_ms >= time_ms:
                view = await self._context.views.get(self.key, segment)
                found = await self._reader(view).first_at(time_ms)
                if found < view.next_offset:
                    return max(found, self.writer.versioned.manifest.first)
        if self.writer.view is not None:
            found = await self._reader(self.writer.view).first_at(time_ms)
            return max(found, self.writer.versioned.manifest.first)
        return self.writer.next_offset

    def _holds(self, offset: int, *, hidden: bool = True) -> bool:
        manifest = self.writer.versioned.manifest
        start = manifest.start if hidden else manifest.first
        return start <= offset < self.writer.next_offset

    async def _is_end(self, offset: int) -> bool:
        """Whether the log really ends there; another owner may have written later.

        If this server may have lost the partition without knowing, storage decides: it refuses the
        commits of a former owner, so one that succeeds proves the end.
        Raises: PartitionNotServing, Unavailable.
        """
        writer, context = self.writer, self._context
        certain = not writer.foreign and context.guard.certain()
        if certain or isinstance(context.guard, SingleServerGuard):
            return True
        if writer.segment is not None:
            if self._proof is None:
                self._proof = EndProof(self.announce)
            error = await self._proof.outcome()
            if error is not None:
                text = f"{name_of(self.key)}: another server may own it: {error}"
                raise PartitionNotServing(text) from error
            return offset == writer.next_offset
        versioned = await self._manifest()
        if versioned.version == writer.versioned.version:
            return True
        if writer.damage is not None:  # nothing is read from storage again until a restart
            raise type(writer.damage)(*writer.damage.args) from writer.damage
        if not writer.busy():
            writer.manifest_changed()
        return False

    async def _manifest(self) -> VersionedManifest:
        """The manifest as it is now. Raises: PartitionNotServing: nobody can say."""
        try:
            return await self._context.manifests.load(self.key)
        except Unavailable as error:
            raise PartitionNotServing(f"{name_of(self.key)}: no manifest: {error}") from error

    async def _stored(self, block: MessageBlock) -> None:
        """Commit a block without messages. Raises: as fence_producer."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.announce(block, partial(_settle, future))
        await future

    def _check_end_known(self, offset: int) -> None:
        """Raises: the damage, if a part of the log that cannot be read may begin at ``offset``."""
        damage = self.writer.damage
        if damage is not None and offset >= self.writer.next_offset:
            raise type(damage)(*damage.args) from damage

    def _reader(self, view: SegmentView) -> SegmentReader:
        return SegmentReader(self._context.files, view, name_of(self.key))

    async def _ready(self) -> None:
        """Know the manifest and the high watermark; opens a log that was not closed cleanly.

        A high watermark that only the manifest names is not shown before its proof, also while an
        opening that will compare the same is under way or has failed.
        """
        writer = self.writer
        while not writer.readable or not (writer.end_proven or writer.state is State.DAMAGED):
            if writer.state is State.BROKEN:
                break
            self._check_served()
            if writer.state is State.SEALED:
                if self._sealed_end is None:
                    self._sealed_end = SealedEnd(self._context, self.key, writer)
                await self._sealed_end.prove()
                continue
            if writer.readable or writer.busy():
                await writer.run(partial(open_now, writer))
                continue
            try:
                versioned = await self._context.manifests.load(self.key)
            except (CorruptLog, NewerFormat):
                await writer.run(partial(open_now, writer))  # finds the same, and keeps it
                continue
            if versioned.manifest.deleted:
                raise PartitionNotServing(f"{name_of(self.key)} is being deleted")
            if versioned.manifest.unsealed is not None:
                await writer.run(partial(open_now, writer))
            elif writer.state is State.UNOPENED and not writer.busy():
                writer.adopt(versioned)
        self._check_served()
        if not writer.readable:
            raise writer.refusal() or PartitionNotServing(f"{name_of(self.key)} cannot be opened")

    def _check_served(self) -> None:
        """Raises: why reads are not served here any more."""
        if self.writer.served:
            return
        if self.writer.state in (State.DELETING, State.DELETED):
            raise PartitionNotServing(f"{name_of(self.key)} is being deleted")
        raise self.writer.refusal() or PartitionNotServing(f"{name_of(self.key)} left")

    async def _confirm(self) -> None:
        """Make sure that what is known is still the truth. Raises: PartitionNotServing."""
        writer = self.writer
        if writer.segment is None and writer.busy():
            await writer.run(partial(open_now, writer))  # it is being opened: wait for the end
        versioned = await self._manifest()
        self._check_served()  # its offsets are gone, which is no "out of range"
        mine = writer.versioned
        if versioned.version == mine.version:
            return
        if writer.damage is not None:
            if versioned.manifest.instance == self._context.manifests.instance:
                return  # the claim of the opening that found the damage
            raise type(writer.damage)(*writer.damage.args) from writer.damage
        ours = (mine.manifest.epoch, self._context.manifests.instance)
        if (
            writer.segment is not None
            and (versioned.manifest.epoch, versioned.manifest.instance) == ours
        ):
            return  # a change of our own is under way
        if not writer.busy():
            writer.manifest_changed()
        raise PartitionNotServing(f"{name_of(self.key)}: the manifest changed, ask again")

    async def _arrival(self, offset: int, deadline_s: float) -> None:
        """Wait until there is a message at ``offset``, at most until the deadline."""
        loop, writer = asyncio.get_running_loop(), self.writer
        while (
            writer.next_offset == offset
            and loop.time() < deadline_s
            and writer.served
            and writer.damage is None
        ):
            if not await writer.arrivals.wait(deadline_s):
                return

    async def _blocks(self, wanted: Wanted) -> list[StoredBlock]:
        """Blocks from memory or storage; none if the segment was dropped meanwhile."""
        writer, counters = self.writer, self._context.counters
        blocks = writer.tail.read(*wanted)
        if blocks is not None:
            counters.cache_hits += 1
            return blocks
        counters.cache_misses += 1
        view, segment = writer.view, None
        if view is None or wanted.offset < view.base_offset:
            segment = _segment_of(writer.versioned.manifest.sealed, wanted.offset)
            if segment is None:
                return []
        try:
            if segment is not None:
                view = await self._context.views.get(self.key, segment)
            assert view is not None
            blocks = await self._reader(view).collect(wanted)
        except NotFound as error:
            await self._confirm()  # a new owner may have dropped it
            if not self._holds(wanted.offset) or not self._is_current(view, segment):
                return []
            raise CorruptLog(f"{name_of(self.key)}: a segment is missing: {error}") from error
        except CorruptLog:
            await self._confirm()
            if not self._is_current(view, segment):
                return []
            counters.corrupt += 1
            raise
        if not blocks and wanted.offset < view.next_offset:
            await self._confirm()
            if not self._is_current(view, segment):
                return []
            raise CorruptLog(
                f"{name_of(self.key)}: {view.path} position {view.position_of(wanted.offset)} "
                f"offset {wanted.offset}: the block is missing"
            )
        return blocks

    def _is_current(self, view: SegmentView | None, segment: Segment | None) -> bool:
        """Whether the log still has what was read; it may have left this server and come back."""
        if segment is not None:
            return segment in self.writer.versioned.manifest.sealed
        return view is self.writer.view


def _segment_of(sealed: tuple[Segment, ...], offset: int) -> Segment | None:
    at = bisect_right(sealed, offset, key=lambda segment: segment.base_offset) - 1
    return sealed[at] if at >= 0 else None


def _settle(future: "asyncio.Future[None]", _: int, error: TalosError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)

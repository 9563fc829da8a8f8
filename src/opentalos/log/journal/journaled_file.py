"""A segment file whose small commits go to the journal; the file itself follows in large writes.

It is an ``AppendFile`` of the segment's bytes, so a writer sees no difference: what a commit
returned for is durable and readable. What the file does not hold yet is kept in memory, within
``write_out_bytes``.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from opentalos.log.journal.extents import Extents
from opentalos.log.journal.journal import NOWHERE, Journal
from opentalos.log.journal.slots import FileMaker
from opentalos.model.errors import OutcomeUnknown, TalosError, WriterDead, to_keep
from opentalos.model.message import Durability
from opentalos.ports.file_store import AppendFile

_log = logging.getLogger(__name__)

# After a commit failed, whose group may be poison for the storage, it meets no other partition's
# group for so many commits: each of its blocks is tried alone by then.
DISTRUSTED_COMMITS = 1_024


# A flushed partition is busy after so many commits, each within the time of the one before. Among
# hundreds of partitions that share a journal such a row is rare by chance.
BUSY_COMMITS = 8
BUSY_S = 0.1


class Sizes(NamedTuple):
    """Which commits go to the file itself. They take all that waits for it along."""

    # A group of so many bytes gains nothing by being written with others, and is written once.
    direct_bytes_min: int
    # What may wait: a commit that would leave more goes to the file.
    write_out_bytes: int


class JournaledFile:
    """AppendFile over a segment's file and the journal; after any error it is dead.

    The first commit, header and copied tail, goes to the file: an opening or a roll waits for it
    alone. ``close`` and ``write_out`` write what is left. ``unwritten`` are the durable bytes that
    the file may not hold.

    A *late* one, given as what makes the file, has none yet: its first commit goes to the journal
    as any other, and the file is made when something is to be written to it.

    A flushed one is always late. Once it has a file, each commit goes there, since it has no sync
    to share; the file's first commit is synced, with all that the journal had. So the journal has a
    beginning of the segment or nothing, and what a loss of power takes is an end of it.
    """

    def __init__(
        self,
        file: AppendFile | FileMaker,
        path: str,
        journal: Journal,
        sizes: Sizes,
        store: tuple[
            Callable[[], Awaitable[Journal]], Callable[[str], None], Callable[[str], None]
        ],
    ) -> None:
        self._maker = file if isinstance(file, FileMaker) else None
        self._file = None if isinstance(file, FileMaker) else file
        self._making = False
        self._flushed = self._maker is not None and self._maker.durability is Durability.FLUSHED
        self._commit_s, self._quick_commits = -math.inf, 0  # loop time of the last; see ``_busy``
        self.path, self.journal, self._sizes = path, journal, sizes
        # The first gives a journal that takes groups; the second is called once the file is closed
        # and holds everything; the third if what waits had better be written and closed soon.
        self._current, self._on_written, self._roll_soon = store
        self.used_s = 0.0  # loop time of the last commit to the file
        self.rolling = False  # it is to be rolled soon
        self.unwritten = Extents()
        self._numbers: list[int] = []  # files of the journal that have it, by piece
        self.unwritten_since_s = 0.0  # loop time of its first piece
        self.in_flight = False  # a group is with the journal, or was never answered
        self.dead: BaseException | None = None
        self.length = 0  # committed
        self._turn = asyncio.Lock()  # of calls to the file
        self._closed = self.released = False
        self._closing: asyncio.Task[None] | None = None  # of a file that was given up
        self._noted = True  # whether the journal knows how far the file is
        self._tail_position = 0  # of the first group since it knew
        self._direct_left = 0

    @property
    def oldest(self) -> int | None:
        """The first file of the journal that it needs; None: none."""
        return self._numbers[0] if self._numbers else None

    @property
    def late(self) -> bool:
        """Whether nobody has begun to make the file."""
        return self._file is None and not self._making

    @property
    def slotted(self) -> bool:
        """Whether its file takes one of few places."""
        return self._maker is not None

    @property
    def making(self) -> bool:
        """Whether its file is being made, or waits for a slot."""
        return self._making and self._file is None

    @property
    def holds(self) -> bool:
        """Whether it is a late one whose file was made and is open."""
        return self._maker is not None and self._file is not None and not self._closed

    @property
    def synced(self) -> bool:
        """Whether its next group must survive a loss of power: the first of a segment always has
        to, since a manifest names the segment afterwards.
        """
        return not self._flushed or not self.length

    @property
    def thin(self) -> bool:
        """See the port."""
        return self._file is not None and self._file.thin

    @property
    def tail_bytes(self) -> int:
        """What a recovery would copy since the journal died: nothing can be noted there any more.

        0 as long as it lives; then the copy is what is not written out.
        """
        if self._noted or self.journal.dead is None:
            return 0
        return self.length - self._tail_position

    def distrust(self) -> None:
        """The last commit of the partition failed: risk nobody else's groups."""
        self._direct_left = DISTRUSTED_COMMITS

    async def commit(
        self, chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
    ) -> int:
        """See the port; the durability is always the segment's."""
        self._check_alive()
        if not self.length:
            await self._choose_journal()
        count_bytes = sum([len(chunk) for chunk in chunks])
        if self._goes_direct(count_bytes):
            await self._write(chunks, count_bytes)
        else:
            await self._append(b"".join(chunks))
        return self.length

    def _goes_direct(self, count_bytes: int) -> bool:
        """Whether a commit goes to the file, not to the journal."""
        journal, sizes = self.journal, self._sizes
        maker = self._maker if self._file is None else None
        # A late one would wait for a slot, as all others of the journal: its partition opens again,
        # which needs no file.
        alone = journal.dead is not None and not journal.fenced and maker is None
        must = journal.full or alone
        if self._direct_left:
            self._direct_left -= 1
            must = True
        large = count_bytes >= sizes.direct_bytes_min
        much = self.unwritten.bytes + count_bytes > sizes.write_out_bytes
        if maker is None:
            return self._flushed or must or large or much or not self.length
        if much and not large and not self.rolling:
            self.rolling = True
            self._roll_soon(self.path)
        wants_file = large or (self._flushed and self._busy())
        return must or (wants_file and maker.reserve_free())

    def _quick(self, now_s: float) -> bool:
        return now_s - self._commit_s < BUSY_S

    def _busy(self) -> bool:
        """Whether a flushed segment is better off with a file: without others in its frames, a
        journal only delays its commits.
        """
        if self._quick_commits < BUSY_COMMITS or self.rolling:
            return False
        return self._quick(asyncio.get_running_loop().time())

    def _leaves_frames(self) -> bool:
        """Whether a flushed commit goes to the file that is there, or that can be made."""
        if self._maker is None or not self.late:
            return True
        return self._busy() and self._maker.at_once

    def may_join(self, count_bytes: int) -> bool:
        """Whether a commit of at most so many bytes surely goes to the journal, at once."""
        journal, sizes = self.journal, self._sizes
        return (
            self.dead is None
            and journal.dead is None
            and self.length > 0
            and not (self._closed or self._direct_left or journal.full)
            and count_bytes < sizes.direct_bytes_min
            and self.unwritten.bytes + count_bytes <= sizes.write_out_bytes
            and not (self._flushed and self._leaves_frames())
        )

    async def reserve(self) -> None:
        """Wait until the file of a late segment may be made; ``close`` then need not wait."""
        if self._may_need_slot() and self._maker is not None:
            await self._maker.reserve()
            if not self._may_need_slot():  # it failed meanwhile, or another sealed it
                self.drop_slot()

    async def write_out(self) -> None:
        """Make the file hold all that was committed before. Raises: TalosError: it is dead."""
        self._check_alive()
        if self.unwritten.bytes:
            await self._write((), 0)

    async def write_through(self, chunks: Sequence[bytes]) -> int:
        """Write what is left and ``chunks`` to the file; see ``commit``. Raises: TalosError."""
        self._check_alive()
        await self._write(chunks, sum(map(len, chunks)))
        return self.length

    async def close(self) -> int:
        """Write what is left and close; see the port. A dead one only gives its descriptor back."""
        if self._closed:
            return self.length
        if self.dead is None:
            await self.write_out()
        async with self._turn:
            try:
                length = 0 if self._file is None else await self._file.close()
                self._check_length(length)
            except BaseException as error:
                self.give_up(error)
                raise
        if self.dead is not None:
            raise WriterDead(f"{self.path}: an earlier call failed") from self.dead
        self.drop_slot()
        self._closed = True
        self._on_written(self.path)
        return length

    def give_up(self, error: BaseException) -> None:
        """No commit may begin any more; what was committed is recovered or written elsewhere."""
        if self.dead is None:
            self.dead = to_keep(error)
        self.drop_slot()
        # Its partition closes it once it has opened again, which may need a slot as well: with
        # enough such files no partition would ever open.
        open_here = self._maker is not None and self._file is not None and self._closing is None
        if open_here and not isinstance(error, GeneratorExit):  # then the loop is gone, too
            loop = asyncio.get_running_loop()
            self._closing = loop.create_task(self._close_dead(), name="log-close")

    async def _close_dead(self) -> None:
        with contextlib.suppress(TalosError):
            await self.close()

    def release(self) -> None:
        """Nobody needs what is left: the journal need not keep it. No commit may follow."""
        self.released = True
        self.drop_slot()
        for number in self._numbers:
            self.journal.release(number)
        self._numbers = []
        self.unwritten.drop_below(self.unwritten.end)
        self.journal.release_doubts(self.path)

    def _may_need_slot(self) -> bool:
        return self.late and self.dead is None and not self.released

    def drop_slot(self) -> None:
        """Give a reserved slot back; not if the file is there, or being made."""
        if self._maker is not None:
            self._maker.drop()

    async def _choose_journal(self) -> None:
        """It may have been made long ago, and the journal may have ended since."""
        try:
            self.journal = await self._current()
        except BaseException as error:
            self.give_up(error)
            raise

    async def _append(self, data: bytes) -> None:
        position = self.length
        written: asyncio.Future[int] | None = None
        try:
            written = self.journal.append(self.path, position, data, synced=self.synced)
            self.in_flight = True
            written.add_done_callback(self._answered)
            number = await written
        except BaseException as error:
            self.give_up(error)
            if written is not None and _is_known(written) and written.result() != NOWHERE:
                self.keep(written.result(), position, data)  # cancelled just after the answer
            raise
        if number == NOWHERE:
            await self._write([data], len(data))
            return
        self.keep(number, position, data)
        if self.released:
            raise WriterDead(f"{self.path}: sealed or deleted by another")

    def _answered(self, written: "asyncio.Future[int]") -> None:
        """The journal said what became of a group. One that was cancelled may still be written."""
        if not written.cancelled():
            self.in_flight = False

    def keep(self, number: int, position: int, data: bytes) -> None:
        """A group of this segment is durable in that file of the journal."""
        if self.released:  # deleted meanwhile
            self.journal.release(number)
            return
        if not self.unwritten.bytes:
            self.unwritten_since_s = asyncio.get_running_loop().time()
        self.unwritten.add(position, data)
        self._numbers.append(number)
        self.length = position + len(data)
        if self._flushed:
            now_s = asyncio.get_running_loop().time()
            self._quick_commits = self._quick_commits + 1 if self._quick(now_s) else 0
            self._commit_s = now_s
        if self._noted:
            self._noted, self._tail_position = False, position

    async def _write(self, chunks: Sequence[bytes | memoryview], count_bytes: int) -> None:
        """Write what is left and the chunks behind it, with one commit of the file."""
        async with self._turn:
            self._check_alive()
            left, pieces = self.unwritten.joined(), len(self._numbers)
            end = self.length
            try:
                file = self._file or await self._made()
                length = await file.commit([left, *chunks] if left else chunks)
                if length != end + count_bytes:
                    raise OutcomeUnknown(
                        f"{self.path}: {length} bytes long, {end + count_bytes} were written"
                    )
            except BaseException as error:
                self.give_up(error)
                raise
            self.used_s = asyncio.get_running_loop().time()
            self._settle(end, pieces)
            if self._maker is not None and (left or not self._flushed):
                self._maker.ask()  # it may be what the next one waits for
            if count_bytes:
                self.length = length

    async def _made(self) -> AppendFile:
        assert self._maker is not None
        self._making = True
        await self._maker.reserve()
        self._check_alive()  # it may have been given up while it waited
        self._file = await self._maker.make(named=self.length > 0)
        self._check_alive()
        return self._file

    def _settle(self, end: int, pieces: int) -> None:
        """The file holds everything below ``end``, so the journal need not."""
        self.unwritten.drop_below(end)
        for number in self._numbers[:pieces]:
            self.journal.release(number)
        del self._numbers[:pieces]
        if self._numbers:
            self.unwritten_since_s = asyncio.get_running_loop().time()
        if not self._noted and self.journal.dead is None:
            self.journal.note_written(self.path, end)
            self._noted, self._tail_position = not self._numbers, end

    def _check_length(self, length: int) -> None:
        if self.dead is None and length != self.length:
            raise OutcomeUnknown(f"{self.path}: {length} bytes long, expected {self.length}")

    def _check_alive(self) -> None:
        if self.dead is not None:
            raise WriterDead(f"{self.path}: an earlier call failed") from self.dead
        if self._closed:
            raise WriterDead(f"{self.path}: closed")


def _is_known(written: "asyncio.Future[int]") -> bool:
    return written.done() and not written.cancelled() and written.exception() is None


def abandon(file: AppendFile) -> None:
    """It is never written again; ``given_back`` may follow late."""
    if isinstance(file, JournaledFile):
        file.give_up(WriterDead(f"{file.path} is abandoned"))


async def given_back(file: AppendFile) -> None:
    """Close a file that is never written again; no late one is made for that.

    What a late one has is in the journal until its partition is recovered. Raises: TalosError.
    """
    if isinstance(file, JournaledFile) and file.late:
        abandon(file)
    else:
        await file.close()


async def written_quietly(file: JournaledFile) -> None:
    """Write out in the background; a file that cannot be written is recovered by its partition."""
    try:
        if file.dead is None:
            await file.write_out()
    except TalosError as error:
        _log.warning("%s could not be written behind the journal: %s", file.path, error)

"""A segment file whose small commits go to the journal; the file itself follows in large writes.

It is an ``AppendFile`` of the segment's bytes, so a writer sees no difference: what a commit
returned for is durable and readable. What the file does not hold yet is kept in memory, within
``write_out_bytes``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from opentalos.log.journal.extents import Extents
from opentalos.log.journal.journal import NOWHERE, Journal
from opentalos.model.errors import OutcomeUnknown, TalosError, WriterDead
from opentalos.ports.file_store import AppendFile

_log = logging.getLogger(__name__)

# After a commit failed, whose group may be poison for the storage, it meets no other partition's
# group for so many commits: each of its blocks is tried alone by then.
DISTRUSTED_COMMITS = 1_024


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
    """

    def __init__(
        self,
        file: AppendFile,
        path: str,
        journal: Journal,
        sizes: Sizes,
        store: tuple[Callable[[], Awaitable[Journal]], Callable[[str], None]],
    ) -> None:
        self._file, self.path, self.journal, self._sizes = file, path, journal, sizes
        # The first gives a journal that takes groups; the second is called once the file is closed
        # and holds everything.
        self._current, self._on_written = store
        self.unwritten = Extents()
        self._numbers: list[int] = []  # files of the journal that have it, by piece
        self.unwritten_since_s = 0.0  # loop time of its first piece
        self.in_flight = False  # a group is with the journal, or was never answered
        self.dead: BaseException | None = None
        self._length = 0  # committed
        self._turn = asyncio.Lock()  # of calls to the file
        self._closed = self._released = False
        self._noted = True  # whether the journal knows how far the file is
        self._tail_position = 0  # of the first group since it knew
        self._direct_left = 0

    @property
    def oldest(self) -> int | None:
        """The first file of the journal that it needs; None: none."""
        return self._numbers[0] if self._numbers else None

    @property
    def thin(self) -> bool:
        """See the port."""
        return self._file.thin

    @property
    def tail_bytes(self) -> int:
        """What a recovery would copy since the journal died: nothing can be noted there any more.

        0 as long as it lives; then the copy is what is not written out.
        """
        if self._noted or self.journal.dead is None:
            return 0
        return self._length - self._tail_position

    def distrust(self) -> None:
        """The last commit of the partition failed: risk nobody else's groups."""
        self._direct_left = DISTRUSTED_COMMITS

    async def commit(self, chunks: Sequence[bytes | memoryview]) -> int:
        """See the port."""
        self._check_alive()
        if not self._length:
            await self._choose_journal()
        count_bytes = sum([len(chunk) for chunk in chunks])
        direct = (
            count_bytes >= self._sizes.direct_bytes_min
            or not self._length
            or self.journal.full
            or (self.journal.dead is not None and not self.journal.fenced)
            or self.unwritten.bytes + count_bytes > self._sizes.write_out_bytes
        )
        if self._direct_left:
            self._direct_left -= 1
            direct = True
        if direct:
            await self._write(chunks, count_bytes)
        else:
            await self._append(b"".join(chunks))
        return self._length

    async def write_out(self) -> None:
        """Make the file hold all that was committed before. Raises: TalosError: it is dead."""
        self._check_alive()
        if self.unwritten.bytes:
            await self._write((), 0)

    async def close(self) -> int:
        """Write what is left and close; see the port. A dead one only gives its descriptor back."""
        if self._closed:
            return self._length
        if self.dead is None:
            await self.write_out()
        async with self._turn:
            try:
                length = await self._file.close()
                self._check_length(length)
            except BaseException as error:
                self.give_up(error)
                raise
        if self.dead is not None:
            raise WriterDead(f"{self.path}: an earlier call failed") from self.dead
        self._closed = True
        self._on_written(self.path)
        return length

    def give_up(self, error: BaseException) -> None:
        """No commit may begin any more; what was committed is recovered or written elsewhere."""
        if self.dead is None:
            self.dead = error

    def release(self) -> None:
        """Nobody needs what is left: the journal need not keep it. No commit may follow."""
        self._released = True
        for number in self._numbers:
            self.journal.release(number)
        self._numbers = []
        self.unwritten.drop_below(self.unwritten.end)
        self.journal.release_doubts(self.path)

    async def _choose_journal(self) -> None:
        """It may have been made long ago, and the journal may have ended since."""
        try:
            self.journal = await self._current()
        except BaseException as error:
            self.give_up(error)
            raise

    async def _append(self, data: bytes) -> None:
        position = self._length
        written: asyncio.Future[int] | None = None
        try:
            written = self.journal.append(self.path, position, data)
            self.in_flight = True
            written.add_done_callback(self._answered)
            number = await written
        except BaseException as error:
            self.give_up(error)
            if written is not None and _is_known(written) and written.result() != NOWHERE:
                self._keep(written.result(), position, data)  # cancelled just after the answer
            raise
        if number == NOWHERE:
            await self._write([data], len(data))
            return
        self._keep(number, position, data)
        if self._released:
            raise WriterDead(f"{self.path}: sealed or deleted by another")

    def _answered(self, written: "asyncio.Future[int]") -> None:
        """The journal said what became of a group. One that was cancelled may still be written."""
        if not written.cancelled():
            self.in_flight = False

    def _keep(self, number: int, position: int, data: bytes) -> None:
        """A group is durable in that file of the journal."""
        if self._released:  # deleted meanwhile
            self.journal.release(number)
            return
        if not self.unwritten.bytes:
            self.unwritten_since_s = asyncio.get_running_loop().time()
        self.unwritten.add(position, data)
        self._numbers.append(number)
        self._length = position + len(data)
        if self._noted:
            self._noted, self._tail_position = False, position

    async def _write(self, chunks: Sequence[bytes | memoryview], count_bytes: int) -> None:
        """Write what is left and the chunks behind it, with one commit of the file."""
        async with self._turn:
            self._check_alive()
            left, pieces = self.unwritten.joined(), len(self._numbers)
            end = self._length
            try:
                length = await self._file.commit([left, *chunks] if left else chunks)
                if length != end + count_bytes:
                    raise OutcomeUnknown(
                        f"{self.path}: {length} bytes long, {end + count_bytes} were written"
                    )
            except BaseException as error:
                self.give_up(error)
                raise
            self._settle(end, pieces)
            if count_bytes:
                self._length = length

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
        if self.dead is None and length != self._length:
            raise OutcomeUnknown(f"{self.path}: {length} bytes long, expected {self._length}")

    def _check_alive(self) -> None:
        if self.dead is not None:
            raise WriterDead(f"{self.path}: an earlier call failed") from self.dead
        if self._closed:
            raise WriterDead(f"{self.path}: closed")


def _is_known(written: "asyncio.Future[int]") -> bool:
    return written.done() and not written.cancelled() and written.exception() is None


async def written_quietly(file: JournaledFile) -> None:
    """Write out in the background; a file that cannot be written is recovered by its partition."""
    try:
        if file.dead is None:
            await file.write_out()
    except TalosError as error:
        _log.warning("%s could not be written behind the journal: %s", file.path, error)

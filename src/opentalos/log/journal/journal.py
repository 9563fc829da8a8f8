"""The journal that this server writes: one commit takes the waiting groups of all partitions.

``JournaledFile`` appends groups and waits; the upkeep trims. Promises: a group counts as durable
only after the commit of its frame returned (I1), which is synced if any group in it has to be; and
a file of the journal is deleted only when every group in it is as durable in its segment or needed
no more.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from opentalos.log.counters import JournalCounters
from opentalos.log.journal.format import (
    RECORD_HEADER_BYTES,
    Kind,
    encode_frame,
    ended_path,
    file_path,
    folder_of,
    number_of,
    record_header,
)
from opentalos.log.segment.format import BlockPlace, SegmentHeader
from opentalos.model.errors import (
    AlreadyExists,
    Fenced,
    OutcomeUnknown,
    StorageFull,
    TalosError,
    WriterDead,
    to_keep,
)
from opentalos.model.message import Durability
from opentalos.ports.file_store import AppendFile, FileStore

_log = logging.getLogger(__name__)

# Of one frame: what a disk writes in some milliseconds.
FRAME_BYTES_MAX = 4 << 20
FIRST_FILE = 1
NOWHERE = 0  # instead of a file's number: the group was not written
END_DEADLINE_S = 10.0  # of the recovery of the file that says so
CLOSE_DEADLINE_S = 10.0  # of a file that is written no more
FILES_MAX = 16  # while nothing can be trimmed; then groups go to their segments
ANSWERED_AT_ONCE = 256  # groups of a frame; then the loop serves its sockets


class JournalPlace(NamedTuple):
    """Where a journal lies, and what it needs of the server."""

    files: FileStore
    name: str
    new_seed: Callable[[], int]
    now_ms: Callable[[], int]
    file_bytes_max: int  # then it continues in another file
    counters: JournalCounters


class Waiter(Protocol):
    """A future, or a member, that waits for a group. Gets the number of the file that has
    the group, or ``NOWHERE``. Nothing is raised."""

    def done(self) -> bool: ...
    def set_result(self, number: int, /) -> None: ...
    def set_exception(self, error: TalosError, /) -> None: ...


class Group(NamedTuple):
    """Bytes of one segment that wait for a frame."""

    path: str
    position: int
    data: bytes
    written: Waiter
    synced: bool = True  # False: it may be lost with the power, so its frame may only be flushed


class Member(Protocol):
    """A segment that has joined the next frame."""

    def fill(self, now_s: float) -> Group | None:
        """The frame begins: what waits at this moment. None: it takes no part. Never raises."""
        ...

    def leave(self) -> None:
        """The journal died before the frame began. Never raises."""
        ...


class Journal:
    """Group commit over partitions; after any error it is dead, and every later call raises.

    A group *holds* the file of the journal that has it until ``release``. A group whose commit
    failed or was not waited for may be there as well: it holds the file as *doubt* of its segment
    until ``release_doubts``.
    """

    def __init__(self, place: JournalPlace) -> None:
        self._place = place
        self.name = place.name
        self.dead: BaseException | None = None
        self.lengths: dict[int, int] = {}  # by file number, oldest first; those not deleted
        self._holds: dict[int, int] = {}
        self._doubts: dict[str, list[int]] = {}  # by segment
        self._settled: set[str] = set()  # segments whose groups under way are searched by nobody
        self._number = FIRST_FILE - 1
        self._file: AppendFile | None = None
        self._seed = 0
        self._records = self._synced = 0  # in the journal; of these on stable storage
        self._references: dict[str, int] = {}  # of segments named in the current file
        self._waiting: deque[Group] = deque()  # bounded by the pending bytes of the server
        self._joined: deque[Member] = deque()  # each segment once at most
        self._in_flight: list[Group] = []
        self._notes: dict[str, int] = {}  # by segment: below which it needs the journal no more
        self._needed = FIRST_FILE  # the oldest file that is
        self._noted = FIRST_FILE  # the same, as the journal says durably
        self._task: asyncio.Task[None] | None = None
        self._closing: dict[asyncio.Task[None], None] = {}  # of files that are continued

    async def start(self) -> None:
        """Make the first file. Raises: TalosError: use another journal."""
        self._file = await self._make(FIRST_FILE)
        self._number = FIRST_FILE

    @property
    def number(self) -> int:
        """Of the file that is being written."""
        return self._number

    @property
    def total_bytes(self) -> int:
        """Of all files that are not deleted."""
        return sum(self.lengths.values())

    @property
    def full(self) -> bool:
        """Whether it is not trimmed as fast as it grows."""
        return len(self.lengths) > FILES_MAX

    def append(
        self, path: str, position: int, data: bytes, *, synced: bool = True
    ) -> "asyncio.Future[int]":
        """Take a group into the next frame; the result is the number of the file that has it.

        ``NOWHERE``: the journal died before, and the group is surely not there.
        Raises, also the future: OutcomeUnknown and its kinds, StorageFull: perhaps it is there.
        """
        if self.dead is not None:
            raise WriterDead(f"journal {self.name}: {self.dead}") from self.dead
        written: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(Group(path, position, data, written, synced))
        self._wake()
        return written

    def join(self, member: Member) -> None:
        """Ask ``member`` for a group when the next frame begins; the journal must not be dead.

        What comes in until then goes along, and a group costs no future and no task.
        """
        self._joined.append(member)
        self._wake()

    def note_written(self, path: str, position: int) -> None:
        """The segment itself is durable below the position: a recovery need not copy that."""
        if self.dead is None:
            self._notes[path] = position
            self._wake()

    def release(self, number: int) -> None:
        """A group in that file is durable in its segment, or needed no more."""
        self._holds[number] -= 1

    def release_doubts(self, path: str) -> None:
        """Nothing of the segment is searched in the journal any more."""
        for number in self._doubts.pop(path, ()):
            self.release(number)
        if any(group.path == path for group in (*self._in_flight, *self._waiting)):
            self._settled.add(path)

    def held(self, number: int) -> bool:
        """Whether a group needs that file of the journal."""
        return self._holds.get(number, 0) > 0

    @property
    def idle(self) -> bool:
        """Whether no group needs any file of it, or waits."""
        waits = self._waiting or self._joined or self._in_flight
        return not (waits or any(self._holds.values()))

    @property
    def fenced(self) -> bool:
        """Whether a successor reads it: this server may have lost partitions without knowing."""
        return isinstance(self.dead, Fenced)

    def fail(self, error: BaseException) -> None:
        """Never write to it again; every group in flight has an unknown outcome."""
        if self.dead is not None:
            return
        self.dead = to_keep(error)
        if isinstance(error, WriterDead):  # that is its end, or the server's
            _log.debug("journal %s: %s", self.name, error)
        else:
            self._place.counters.given_up += 1
            _log.warning("journal %s is given up: %s", self.name, error)
        for group in self._in_flight:
            self._doubt(group.path)
        in_flight, waiting, joined = self._in_flight, list(self._waiting), list(self._joined)
        self._in_flight = []
        self._waiting.clear()
        self._joined.clear()
        self._notes.clear()
        self._settled.clear()
        for group in [*in_flight, *waiting] if self.fenced else in_flight:
            if not group.written.done():
                group.written.set_exception(self._outcome(error))
        for group in waiting:
            if not group.written.done():
                group.written.set_result(NOWHERE)
        for member in joined:
            member.leave()

    async def trim(self) -> None:
        """Delete the oldest files that nothing holds; never the one that is written.

        The journal says so first, and the files are deleted at a later call: else nobody could
        distinguish them from files that were lost.
        """
        needed = next((n for n in self.lengths if n == self._number or self.held(n)), self._number)
        if self.dead is None and needed > self._needed:
            self._needed = needed
            self._wake()
        for number in [number for number in self.lengths if number < self._noted]:
            if self.dead is not None:
                return
            await self._place.files.delete(file_path(self.name, number))
            del self.lengths[number]
            self._holds.pop(number, None)

    async def end(self) -> None:
        """Nothing needs it any more: say so durably, then delete its files. It must be idle."""
        if not self.idle:
            raise ValueError(f"journal {self.name} is still needed")
        self.fail(WriterDead("it has ended"))
        await end_journal(self._place.files, self.name)
        self.lengths.clear()
        if self._file is not None:  # its descriptor, if it failed before
            await _closed(self._file, self.name)

    async def close(self) -> None:
        """Write what was appended, then stop and close the file."""
        while self._task is not None and not self._task.done() and self.dead is None:
            await asyncio.wait([self._task])
        await self.stop()
        if self._file is not None:
            await _closed(self._file, self.name)

    async def stop(self) -> None:
        """Stop at once: what is under way has an unknown outcome."""
        self.fail(WriterDead("the server stops"))
        tasks = [self._task] if self._task is not None else []
        while tasks:  # a commit that is cancelled may leave a file to close
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            tasks = list(self._closing)

    # --- inside ---------------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="log-journal")

    async def _run(self) -> None:
        try:
            while self.dead is None and self._has_work:
                await asyncio.sleep(0)  # the groups that answer the last frame join this one
                if self.lengths[self._number] >= self._place.file_bytes_max:
                    await self._continue()
                await self._commit()
        except TalosError as error:
            self.fail(error)
        except Exception as error:
            _log.exception("journal %s: a commit failed", self.name)
            self.fail(error)
        except BaseException as error:
            self.fail(error)
            raise

    @property
    def _has_work(self) -> bool:
        notes = self._notes or self._needed > self._noted
        return bool(self._waiting or self._joined or notes)

    async def _commit(self) -> None:
        """One frame of what waits."""
        parts: list[bytes] = []
        needed = self._needed
        if needed > self._noted:
            parts += (record_header(Kind.TRIMMED, 0, needed, 0), b"")
        notes, self._notes = self._notes, {}
        for path, position in notes.items():
            parts += (record_header(Kind.WRITTEN, self._reference(path, parts), position, 0), b"")
        loop, counters = asyncio.get_running_loop(), self._place.counters
        began_s = loop.time()
        number = self._number
        groups = self._in_flight = self._take(began_s)
        self._holds[number] = self._holds.get(number, 0) + len(groups)
        synced = not groups or needed > self._noted
        for path, position, data, _, must_be_synced in groups:
            synced = synced or must_be_synced
            reference = self._reference(path, parts)
            parts += (record_header(Kind.GROUP, reference, position, len(data)), data)
        if not parts:
            return
        await self._write(parts, synced=synced)
        self._noted = needed
        counters.commit_s.observe(loop.time() - began_s)
        counters.frame_groups.observe(len(groups))
        if self.dead is not None:
            return  # given up meanwhile: a late result counts for nothing
        await self._answer(number)

    async def _answer(self, number: int) -> None:
        """The frame is durable: say so, with turns of the loop in between if it is a large one."""
        while self._in_flight:
            groups = self._in_flight[:ANSWERED_AT_ONCE]
            del self._in_flight[:ANSWERED_AT_ONCE]
            for group in groups:
                if group.written.done():  # nobody waits any more, but it is there
                    self._doubt(group.path)
                else:
                    group.written.set_result(number)
            self._forget_settled(groups)
            if self._in_flight:
                await asyncio.sleep(0)

    def _take(self, now_s: float) -> list[Group]:
        groups: list[Group] = []
        count_bytes = 0
        waiting = self._waiting
        while waiting:
            group = waiting[0]
            if group.written.done():  # given up before it was written
                self._forget_settled([waiting.popleft()])
                continue
            count_bytes += RECORD_HEADER_BYTES + len(group.data)
            if groups and count_bytes > FRAME_BYTES_MAX:
                break
            groups.append(waiting.popleft())
        joined = self._joined
        while joined and count_bytes < FRAME_BYTES_MAX:
            filled = joined.popleft().fill(now_s)
            if filled is not None:
                count_bytes += RECORD_HEADER_BYTES + len(filled.data)
                groups.append(filled)
        return groups

    def _reference(self, path: str, parts: list[bytes]) -> int:
        reference = self._references.get(path)
        if reference is None:
            reference = self._references[path] = len(self._references)
            name = path.encode()
            parts += (record_header(Kind.NAME, reference, 0, len(name)), name)
        return reference

    async def _write(self, parts: list[bytes], *, synced: bool = True) -> None:
        """Commit one frame; parts alternate between a record's header and its data."""
        file, number, records = self._file, self._number, len(parts) // 2
        assert file is not None
        block = BlockPlace(self._seed, self._synced, self._place.now_ms())
        frame = encode_frame(parts, self._records, block)
        expected = self.lengths[number] + len(frame)
        if synced:
            length = await file.commit([frame])
        else:
            length = await file.commit([frame], durability=Durability.FLUSHED)
        if length != expected:
            path = file_path(self.name, number)
            raise OutcomeUnknown(f"{path}: {length} bytes long, {expected} were written")
        self.lengths[number] = length
        self._records += records
        if synced:
            self._synced = self._records
        self._place.counters.frames += 1
        self._place.counters.bytes += len(frame)

    async def _continue(self) -> None:
        """Go on in another file. Whoever finds the last record of the old one reads on there.

        Nothing is written to the new file before that record is durable, and it is not once the
        old file is fenced; so a fence of the last file is one of the journal. It is synced, and
        the whole old file with it: else a loss of power might take it, but not what follows.
        """
        old, seed = self._file, self._seed
        assert old is not None
        following = self._number + 1
        made = await self._make(following)
        new_seed, self._seed = self._seed, seed
        try:
            await self._write([record_header(Kind.NEXT, 0, following, 0), b""])
        except BaseException:
            self._close_soon(made)
            raise
        self._seed = new_seed
        self._file, self._number = made, following
        self._references = {}
        self._close_soon(old)

    async def _make(self, number: int) -> AppendFile:
        place = self._place
        path = file_path(self.name, number)
        file = await place.files.create(path, durability=Durability.SYNCED)
        self._seed = place.new_seed()
        # The NEXT record of the file before has a number, too.
        first = self._records + (number > FIRST_FILE)
        header = SegmentHeader(
            self._seed, number, first, place.now_ms(), self._noted, Durability.SYNCED
        )
        try:
            self.lengths[number] = await file.commit([header.encode()])
        except BaseException:
            self._close_soon(file)
            raise
        return file

    def _close_soon(self, file: AppendFile) -> None:
        """Give its descriptor back; nobody waits for it."""
        task = asyncio.get_running_loop().create_task(_closed(file, self.name))
        self._closing[task] = None
        task.add_done_callback(lambda done: self._closing.pop(done, None))

    def _doubt(self, path: str) -> None:
        """The current file may have a group of the segment that nobody waits for."""
        if path in self._settled:
            self.release(self._number)
        else:
            self._doubts.setdefault(path, []).append(self._number)

    def _forget_settled(self, groups: list[Group]) -> None:
        """A segment has one group under way at most, and none after it was settled."""
        if self._settled:
            self._settled.difference_update([group.path for group in groups])

    def _outcome(self, error: BaseException) -> TalosError:
        text = f"journal {self.name}: {error}"
        return StorageFull(text) if isinstance(error, StorageFull) else OutcomeUnknown(text)


async def end_journal(files: FileStore, name: str) -> None:
    """Say durably that no file of the journal is needed, then delete them; idempotent.

    Raises: TalosError: call again.
    """
    path = ended_path(name)
    try:
        file = await files.create(path, durability=Durability.SYNCED)
        await file.close()
    except AlreadyExists:  # its entry says it all, if it is durable
        await files.recover(path, deadline_s=END_DEADLINE_S)
    for found in await files.list(folder_of(name)):
        if number_of(found) is not None:
            await files.delete(found)


async def _closed(file: AppendFile, name: str) -> None:
    """Every byte was committed; a recovery closes what is not."""
    try:
        async with asyncio.timeout(CLOSE_DEADLINE_S):
            await file.close()
    except (TalosError, TimeoutError) as error:
        _log.debug("a file of journal %s was not closed: %s", name, error)
    except Exception:
        _log.exception("a file of journal %s was not closed", name)

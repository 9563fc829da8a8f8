"""Bounds the files of late segments, and of side indexes, that a server has open for writing.

On HDFS an open file is a pipeline, a lease and a thread of each DataNode. Who waits for a slot
waits in order; meanwhile the segment that used its own least recently is to give it back.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto

from opentalos.model.errors import Fenced, StoreUnavailable, TalosError
from opentalos.model.message import Durability
from opentalos.ports.file_store import AppendFile, FileStore

# A file that failed is closed soon; until then it is open for the storage.
DEAD_HELD_S = 1.0
HANGS_S = 0.5
# A side index can be done without. Its task takes room that the closing of files needs as well,
# so all of them must not wait for slots that only come back with a close.
INDEX_WAIT_S = 3.0


class FileSlots:
    """At most ``files_max`` files; 0: not bounded. ``on_wait`` is called by each that must wait.

    ``steady``: whether the manifests can be read, which whoever makes a late file has to.
    """

    def __init__(
        self,
        files_max: int,
        on_wait: Callable[[], None],
        steady: Callable[[], bool] = lambda: True,
    ) -> None:
        self.files_max, self._on_wait, self.steady = files_max, on_wait, steady
        self._waiting: deque[asyncio.Future[None]] = deque()  # for a slot, in order
        self.used = 0

    @property
    def free(self) -> bool:
        """Whether a file can be made at once."""
        return not self.files_max or self.used < self.files_max

    def take_free(self) -> bool:
        """Take a slot if one is free."""
        if not self.free:
            return False
        self.used += 1
        return True

    async def take(self) -> None:
        """Wait for a slot."""
        if self.take_free():
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self.ask()
        try:
            await place
        except BaseException:
            if place.done() and not place.cancelled():
                self.give_back()  # it came with the cancellation
            elif place in self._waiting:
                self._waiting.remove(place)
            raise

    def ask(self) -> None:
        """Ask for room if a caller waits for it."""
        if self._waiting:
            self._on_wait()

    def give_back(self) -> None:
        """The file is closed; whoever waits longest has its slot."""
        self.used -= 1
        while self._waiting and self.free:
            place = self._waiting.popleft()
            if not place.done():
                self.used += 1
                place.set_result(None)


class SlottedFile:
    """AppendFile that gives its slot back when it is closed, or a while after it failed.

    A call that hangs holds no slot: the files of one tenant may hang, and others must not wait.
    """

    def __init__(self, slots: FileSlots) -> None:
        self._slots, self._holds = slots, True
        self._file: AppendFile | None = None

    async def create(self, files: FileStore, path: str, durability: Durability) -> None:
        """Make the file; the slot is taken already. Raises: TalosError."""
        hangs = self._give_back_after(HANGS_S)
        try:
            self._file = await files.create(path, durability=durability)
        except BaseException:
            self._give_back()
            raise
        finally:
            hangs.cancel()

    @property
    def thin(self) -> bool:
        """See the port."""
        return self._file is not None and self._file.thin

    async def commit(
        self, chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
    ) -> int:
        """See the port."""
        assert self._file is not None
        hangs = self._give_back_after(HANGS_S)
        try:
            return await self._file.commit(chunks, durability=durability)
        except BaseException:
            self._give_back_after(DEAD_HELD_S)
            raise
        finally:
            hangs.cancel()

    async def close(self) -> int:
        """See the port."""
        assert self._file is not None
        hangs = self._give_back_after(HANGS_S)
        try:
            return await self._file.close()
        finally:
            hangs.cancel()
            self._give_back()

    def _give_back_after(self, delay_s: float) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay_s, self._give_back)

    def _give_back(self) -> None:
        if self._holds:
            self._holds = False
            self._slots.give_back()


async def create_slotted(
    files: FileStore, path: str, durability: Durability, slots: FileSlots
) -> AppendFile:
    """Make a file as soon as there is a slot. Raises: TalosError, also if there is none soon."""
    try:
        async with asyncio.timeout(INDEX_WAIT_S):
            await slots.take()
    except TimeoutError as error:
        raise StoreUnavailable(f"{path}: too many files are open") from error
    file = SlottedFile(slots)
    await file.create(files, path, durability)
    return file


class Standing(Enum):
    """Whose a segment is, as its partition's manifest says."""

    OURS = auto()  # this process has the partition, in the epoch of the segment
    TAKEN = auto()  # another opening has claimed the partition; the segment is not sealed yet
    GONE = auto()  # and the manifest does not name the segment


class FileMaker:
    """Makes the file of one late segment. ``asked``: whose the segment is by its
    manifest, and whom to tell of a file that may be left behind.
    """

    def __init__(
        self,
        files: FileStore,
        path: str,
        slots: FileSlots,
        asked: tuple[Callable[[str], Awaitable[Standing]], Callable[[str], None]],
        durability: Durability = Durability.SYNCED,
    ) -> None:
        self._files, self._path, self._slots = files, path, slots
        self.durability = durability  # of the file's commits
        self._standing, self._left = asked
        self._reserved = self._used = False
        self._taking: asyncio.Task[None] | None = None
        self._waiting = 0

    @property
    def at_once(self) -> bool:
        """Whether it need not wait, neither for a slot nor for the manifests."""
        return self._slots.steady() and (self._reserved or self._slots.free)

    def reserve_free(self) -> bool:
        """Reserve a slot if neither that nor the manifests need a wait."""
        if not self._slots.steady():
            return False
        if not (self._reserved or self._used or self._waiting) and self._slots.take_free():
            self._reserved = True
        return self._reserved

    async def reserve(self) -> None:
        """Wait for a slot, so that ``make`` does not.

        All that wait share one: a commit of the partition would else wait for a second slot, and
        the roll that has the first for the commit.
        """
        self._waiting += 1
        try:
            while not (self._reserved or self._used):
                if self._taking is None:
                    take = self._slots.take()
                    self._taking = asyncio.get_running_loop().create_task(take, name="log-slot")
                    self._taking.add_done_callback(self._taken)
                if self._taking.done():  # what it calls back runs next; no wait gives way to that
                    await asyncio.sleep(0)
                else:
                    await asyncio.shield(self._taking)
        finally:
            self._waiting -= 1
            taking = self._taking
            if not self._waiting and taking is not None:
                self._taking = None  # who comes next must not wait for one that is cancelled
                taking.cancel()

    def ask(self) -> None:
        """The file is idle: others may wait for its slot."""
        self._slots.ask()

    def drop(self) -> None:
        """The file is not made, unless a caller waits for that."""
        if self._reserved and not self._waiting:
            self._reserved = False
            self._slots.give_back()

    def _taken(self, task: "asyncio.Task[None]") -> None:
        wanted = self._taking is task and self._waiting > 0
        if self._taking is task:
            self._taking = None
        if task.cancelled():
            return
        if wanted:
            self._reserved = True
        else:
            self._slots.give_back()

    async def make(self, named: bool) -> AppendFile:
        """The file. ``named``: a manifest may name the segment. Raises: it must not be used.

        A successor claims the partition before it looks for the file. So if the partition is still
        this server's once the file is there, every successor finds the file, and fences it.
        """
        await self.reserve()
        self._reserved, self._used = False, True  # it is the file's now
        file = SlottedFile(self._slots)
        try:
            await file.create(self._files, self._path, self.durability)
            if named:
                await self._check_standing(file)
        except BaseException:
            self._left(self._path)
            raise
        return file

    async def _check_standing(self, file: AppendFile) -> None:
        try:
            standing = await self._standing(self._path)
        except BaseException:
            await _closed_quietly(file)
            raise
        if standing is Standing.OURS:
            return
        await _closed_quietly(file)
        if standing is Standing.GONE:  # perhaps no later opening finds it
            await self._files.delete(self._path)
        raise Fenced(f"{self._path}: another server owns the partition")


async def _closed_quietly(file: AppendFile) -> None:
    try:
        await file.close()
    except TalosError:  # another server was quicker
        return

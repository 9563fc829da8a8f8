"""The simulated disk: page cache, stable storage, and what a crash leaves of a file.

Theory of operation. The disk outlives the servers that use it. A commit first writes into the page
cache, then syncs to stable storage; in between, and after a failed sync, readers see bytes that
stable storage does not have. Each effect runs in the disk's own context at a virtual time, so it
happens even if the server that requested it has crashed meanwhile. ``lose_process`` and
``lose_power`` simulate the two kinds of crash:

- a process crash tears the write in flight at any byte; bytes that no commit has covered are lost
  in any subset of pages; those of commits that were only flushed stay in the page cache;
- a power loss does the same to every file, and loses the page cache as well: what follows the last
  commit that was synced.

``FaultyFileStore``, ``FaultyMetaStore`` and ``FaultyRowStore`` are the clients of the disk, one of
each per server.
"""

import asyncio
import random
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from opentalos.model.errors import StorageFull, TalosError
from opentalos.model.message import Durability
from opentalos.testing.simulation.loop import SimulatedProcess, SimulationLoop
from opentalos.testing.simulation.stores.kills import Kills
from opentalos.testing.simulation.stores.refusal import Refusals
from opentalos.testing.simulation.stores.stored_logs import WatchedRecords
from opentalos.testing.simulation.stores.troubles import Troubles

T = TypeVar("T")

PAGE_BYTES = 512  # a sector, the smallest unit that real disks lose
CAPACITY_BYTES = 1 << 30
SEGMENT_SUFFIX = ".log"
ASIDE = "aside/"  # copies of segments, see log/manifest/aside.py
WATCHED_SUFFIXES = (SEGMENT_SUFFIX, ".jnl")  # segments, and files of journals
ENTRY_S = 5.0  # a delete so long ago is durable


class DiskEvent(NamedTuple):
    """An event that the history needs: which writer changed which file."""

    kind: str  # "file-commit", "file-recover" or "recover-refused"
    path: str
    process: str
    length: int


@dataclass(slots=True)
class SimulatedFile:
    """One file. ``synced_bytes`` survive a power loss, ``flushed_bytes`` a process crash."""

    durability: Durability
    writer: SimulatedProcess
    content: bytearray = field(default_factory=bytearray)
    flushed_bytes: int = 0
    synced_bytes: int = 0
    before_last_bytes: int = 0  # length before the last successful commit
    committed_s: float = float("inf")  # when the last successful commit returned
    rotten: bool = False
    in_flight: bytes = b""  # handed to the disk, not yet written
    lies_from: int | None = None  # a sync failed here; later syncs report success and store nothing
    fenced: bool = False
    fenced_bytes: int | None = None  # set by the first ``recover`` that finished

    def visible(self) -> bytes:
        """What a reader gets."""
        return bytes(self.content[: self.fenced_bytes])

    def writable(self) -> bool:
        """Whether a write of the file's writer still has an effect."""
        return self.fenced_bytes is None and not self.writer.crashed


class SimulatedDisk:
    """Files, plus the storage of the faulty MetaStore and RowStore, for any number of servers."""

    def __init__(
        self,
        loop: SimulationLoop,
        rng: random.Random,
        refusals: random.Random | None = None,
        troubles: random.Random | None = None,
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.files: dict[str, SimulatedFile] = {}
        self.records = WatchedRecords()  # of meta and rows; their files are not used
        self.removed: dict[str, bytes] = {}  # of these, as they were when they were first removed
        self.capacity_bytes = CAPACITY_BYTES
        self.used_bytes = 0
        self.observers: list[Callable[[DiskEvent], None]] = []
        self.healed = False  # True: no more injected faults
        self.kills = Kills()
        self.stuck: dict[str, None] = {}  # topics (uuids) whose files reject every write
        self.refusals = Refusals(loop, refusals or random.Random(0))
        self.troubles = Troubles(loop, troubles or random.Random(0))
        self.entries_undone = 0.0  # see FileFaults
        self.resurrected: dict[str, None] = {}  # files whose deletion a power loss undid
        self.damaged_journals: dict[str, str] = {}  # files of journals, with what happened
        self._deleted: list[tuple[float, str, SimulatedFile]] = []
        self._context: Context = copy_context()

    async def after(self, delay_s: float, effect: Callable[[], T]) -> T:
        """Run ``effect`` as the disk, even if the caller has crashed meanwhile.

        Raises: what ``effect`` raised, inside the caller's process.
        """
        answer: asyncio.Future[tuple[T | None, TalosError | None]] = self.loop.create_future()

        def settle() -> None:
            # Errors are passed as values: a crashed caller must not leave an unseen exception.
            try:
                outcome: tuple[T | None, TalosError | None] = effect(), None
            except TalosError as error:
                outcome = None, error
            if not answer.done():
                answer.set_result(outcome)

        self.loop.call_later(delay_s, settle, context=self._context)
        value, error = await answer
        if error is not None:
            raise error
        return value  # type: ignore[return-value]  # None only beside an error, or if T allows it

    def later(self, delay_s: float, effect: Callable[[], object]) -> None:
        """Run ``effect`` as the disk, without a caller that waits for it."""
        self.loop.call_later(delay_s, effect, context=self._context)

    def hits(self, probability: float) -> bool:
        """Draw whether a fault of this probability happens now."""
        return probability > 0 and not self.healed and self.rng.random() < probability

    def write(self, file: SimulatedFile, data: bytes) -> None:
        """Write bytes into the page cache. Raises: StorageFull, with a part written."""
        file.in_flight = b""
        if not file.writable():
            return
        room_bytes = max(0, self.capacity_bytes - self.used_bytes)
        part = data[:room_bytes]
        file.content += part
        self.used_bytes += len(part)
        if len(part) < len(data):
            raise StorageFull(f"simulated disk full: {len(part)} of {len(data)} bytes were written")

    def sync(self, file: SimulatedFile, *, to_platter: bool, fails: bool = False) -> None:
        """Make written bytes stable, as far as the file's durability requires.

        After a failure the bytes stay readable, and no later sync stores them.
        """
        if not file.writable():
            return
        if not fails:
            self._stabilise(file, to_platter=to_platter)
        elif file.lies_from is None:
            file.lies_from = file.flushed_bytes

    def fence(self, file: SimulatedFile) -> None:
        """No later commit of the writer succeeds."""
        file.fenced = True

    def measure(self, file: SimulatedFile) -> int:
        """Freeze and sync the file; a write in flight is applied before, in part, or never."""
        if file.fenced_bytes is None:
            if file.in_flight:
                self._tear_in_flight(file)
            file.fenced_bytes = len(file.content)
            self._stabilise(file, to_platter=True)
        return file.fenced_bytes

    def remove(self, path: str) -> None:
        """Delete a file; its writer is fenced."""
        file = self.files.pop(path, None)
        if file is not None:
            if path.endswith(WATCHED_SUFFIXES):
                self.removed.setdefault(path, bytes(file.content))
            if self.entries_undone:
                self._deleted.append((self.loop.time(), path, replace(file)))
            file.fenced, file.fenced_bytes = True, len(file.content)
            self.used_bytes -= len(file.content)

    def lose_process(self, process: SimulatedProcess) -> None:
        """Damage the files of a process as its crash does."""
        for file in self.files.values():
            if file.writer is process:
                self._damage(file, file.flushed_bytes)

    def lose_power(self) -> None:
        """Damage every file as a power loss does; the rest is on stable storage."""
        self._undo_deletes()
        for file in self.files.values():
            self._damage(file, file.synced_bytes)
            file.synced_bytes = file.flushed_bytes = len(file.content)

    def rot(self, suffix: str) -> str | None:
        """Flip one stored bit before the last commit of some file and return its path, if any.

        Damage in the last commit would look like a torn write.
        """
        paths = [
            path
            for path, file in self.files.items()
            if path.endswith(suffix)
            and not path.startswith(ASIDE)
            and min(file.before_last_bytes, file.synced_bytes) > 0
        ]
        if not paths:
            return None
        path = self.rng.choice(paths)
        file = self.files[path]
        position = self.rng.randrange(min(file.before_last_bytes, file.synced_bytes))
        file.content[position] ^= 1 << self.rng.randrange(8)
        return path

    def observe(self, kind: str, path: str, process: SimulatedProcess, length: int) -> None:
        """Notify the observers."""
        for observer in self.observers:
            observer(DiskEvent(kind, path, process.name, length))

    def _undo_deletes(self) -> None:
        """A delete's directory entry is not durable at once, so the file may be there again."""
        now_s, rng = self.loop.time(), self.troubles.rng
        for deleted_s, path, file in self._deleted:
            young = now_s - deleted_s < ENTRY_S
            if young and path not in self.files and rng.random() < self.entries_undone:
                self.files[path] = file
                self.used_bytes += len(file.content)
                self.resurrected[path] = None
        self._deleted.clear()

    def _stabilise(self, file: SimulatedFile, *, to_platter: bool) -> None:
        length = len(file.content)
        if file.lies_from is not None:
            length = min(length, file.lies_from)
        file.flushed_bytes = max(file.flushed_bytes, length)
        if to_platter:
            file.synced_bytes = max(file.synced_bytes, length)

    def _tear_in_flight(self, file: SimulatedFile) -> None:
        # Zero bytes, all, or any part of the write in flight reached the page cache.
        data, file.in_flight = file.in_flight, b""
        if file.fenced_bytes is None:
            part = data[: self.rng.choice([0, len(data), self.rng.randint(0, len(data))])]
            file.content += part
            self.used_bytes += len(part)

    def _damage(self, file: SimulatedFile, stable_bytes: int) -> None:
        if file.in_flight:
            self._tear_in_flight(file)
        before = len(file.content)
        if before > stable_bytes:
            tail = bytes(file.content[stable_bytes:])
            file.content[stable_bytes:] = damaged_tail(tail, stable_bytes, self.rng)
            self.used_bytes += len(file.content) - before
        file.flushed_bytes = min(file.flushed_bytes, len(file.content))
        if file.fenced_bytes is not None:
            file.fenced_bytes = min(file.fenced_bytes, len(file.content))


def damaged_tail(tail: bytes, position: int, rng: random.Random) -> bytes:
    """The bytes that a crash leaves of unsynced bytes from ``position`` on: any subset of pages.

    A lost page reads as zeros: file systems show no older content in bytes that were appended. The
    file may always end at an earlier byte.
    """
    mode = rng.randrange(4)
    if mode == 0:
        return b""
    if mode == 1:
        return tail[: rng.randint(0, len(tail))]
    if mode == 2 and rng.random() < 0.5:
        return tail
    left = bytearray()
    at = 0
    while at < len(tail):
        page_end = at + PAGE_BYTES - (position + at) % PAGE_BYTES
        page = tail[at:page_end]
        left += page if rng.random() < 0.5 else bytes(len(page))
        at = page_end
    return bytes(left[: rng.choice([len(left), rng.randint(0, len(left))])])

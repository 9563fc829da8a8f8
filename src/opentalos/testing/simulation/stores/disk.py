"""The simulated disk: what was written, what is on the platter, and what a crash leaves of it.

It outlives the servers that use it. A commit first writes, then syncs; in between, and after a
sync that failed, readers see bytes that the platter does not have. ``lose_process`` and
``lose_power`` play the two kinds of crash:

- a process crash tears the write under way at any byte; bytes of a ``synced`` file that no sync
  has covered are lost in any subset of pages, bytes of a ``flushed`` file stay in the page cache;
- a power loss does the same to every file, and takes the page cache with it.
"""

import asyncio
import random
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from opentalos.model.errors import StorageFull, TalosError
from opentalos.model.message import Durability
from opentalos.testing.simulation.loop import SimulatedProcess, SimulationLoop
from opentalos.testing.simulation.stores.kills import Kills
from opentalos.testing.simulation.stores.refusal import Refusals
from opentalos.testing.simulation.stores.stored_logs import WatchedRecords

T = TypeVar("T")

PAGE_BYTES = 512  # a sector: the smallest unit that real disks lose
CAPACITY_BYTES = 1 << 30
SEGMENT_SUFFIX = ".log"


class DiskEvent(NamedTuple):
    """Something the history checker wants to know: which writer changed which file when."""

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
    in_flight: bytes = b""  # handed to the disk, not yet written
    lies_from: int | None = None  # a sync failed here; later ones succeed and store nothing
    fenced: bool = False
    fenced_bytes: int | None = None  # set by the first ``recover`` that finished

    def visible(self) -> bytes:
        """What a reader gets."""
        return bytes(self.content[: self.fenced_bytes])

    def writable(self) -> bool:
        """Whether a write of the old writer still reaches the file."""
        return self.fenced_bytes is None and not self.writer.crashed


class SimulatedDisk:
    """Files, plus the storage of the faulty MetaStore and RowStore, for any number of servers."""

    def __init__(
        self, loop: SimulationLoop, rng: random.Random, refusals: random.Random | None = None
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.files: dict[str, SimulatedFile] = {}
        self.records = WatchedRecords()  # of meta and rows; their files are not used
        self.removed: dict[str, bytes] = {}  # segments, as they were when they were first removed
        self.capacity_bytes = CAPACITY_BYTES
        self.used_bytes = 0
        self.observers: list[Callable[[DiskEvent], None]] = []
        self.healed = False  # True: no more injected faults
        self.kills = Kills()
        self.stuck: dict[str, None] = {}  # topics (uuids) whose files take nothing
        self.refusals = Refusals(loop, refusals or random.Random(0))
        self._context: Context = copy_context()

    async def after(self, delay_s: float, effect: Callable[[], T]) -> T:
        """Run ``effect`` as the disk, whatever became of the caller meanwhile.

        Raises: what ``effect`` raised, inside the caller's process.
        """
        answer: asyncio.Future[tuple[T | None, TalosError | None]] = self.loop.create_future()

        def settle() -> None:
            # Errors travel as values: a crashed caller must not leave an unseen exception.
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
        """Run ``effect`` as the disk; nobody waits for it."""
        self.loop.call_later(delay_s, effect, context=self._context)

    def hits(self, probability: float) -> bool:
        """Draw whether a fault of this probability happens now."""
        return probability > 0 and not self.healed and self.rng.random() < probability

    def write(self, file: SimulatedFile, data: bytes) -> None:
        """Put bytes into the page cache. Raises: StorageFull, with a part written."""
        file.in_flight = b""
        if not file.writable():
            return
        room_bytes = max(0, self.capacity_bytes - self.used_bytes)
        part = data[:room_bytes]
        file.content += part
        self.used_bytes += len(part)
        if len(part) < len(data):
            raise StorageFull(f"simulated disk: {len(part)} of {len(data)} bytes fitted")

    def sync(self, file: SimulatedFile, *, to_platter: bool, fails: bool = False) -> None:
        """Make what was written stable, as far as the file's durability asks.

        If it fails, the bytes stay readable, and no later sync stores them.
        """
        if not file.writable():
            return
        if not fails:
            self._stabilise(file, to_platter=to_platter)
        elif file.lies_from is None:
            file.lies_from = file.synced_bytes
            if file.durability is Durability.FLUSHED:
                file.lies_from = file.flushed_bytes

    def fence(self, file: SimulatedFile) -> None:
        """No later commit of the writer succeeds."""
        file.fenced = True

    def measure(self, file: SimulatedFile) -> int:
        """Freeze and sync the file; a write still under way lands before, in part, or never."""
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
            if path.endswith(SEGMENT_SUFFIX):
                self.removed.setdefault(path, bytes(file.content))
            file.fenced, file.fenced_bytes = True, len(file.content)
            self.used_bytes -= len(file.content)

    def lose_process(self, process: SimulatedProcess) -> None:
        """What the crash of one process does to its files."""
        for file in self.files.values():
            if file.writer is process:
                stable = file.synced_bytes
                if file.durability is Durability.FLUSHED:
                    stable = file.flushed_bytes
                self._damage(file, stable)

    def lose_power(self) -> None:
        """What a power loss does to every file; what remains is on the platter."""
        for file in self.files.values():
            self._damage(file, file.synced_bytes)
            file.synced_bytes = file.flushed_bytes = len(file.content)

    def rot(self, suffix: str) -> str | None:
        """Flip one stored bit below the last commit of some file; its path, if there is one.

        Damage in the last commit could not be told from a torn write.
        """
        paths = [
            path
            for path, file in self.files.items()
            if path.endswith(suffix) and min(file.before_last_bytes, file.synced_bytes) > 0
        ]
        if not paths:
            return None
        path = self.rng.choice(paths)
        file = self.files[path]
        position = self.rng.randrange(min(file.before_last_bytes, file.synced_bytes))
        file.content[position] ^= 1 << self.rng.randrange(8)
        return path

    def observe(self, kind: str, path: str, process: SimulatedProcess, length: int) -> None:
        """Tell the observers."""
        for observer in self.observers:
            observer(DiskEvent(kind, path, process.name, length))

    def _stabilise(self, file: SimulatedFile, *, to_platter: bool) -> None:
        length = len(file.content)
        if file.lies_from is not None:
            length = min(length, file.lies_from)
        file.flushed_bytes = max(file.flushed_bytes, length)
        if to_platter:
            file.synced_bytes = max(file.synced_bytes, length)

    def _tear_in_flight(self, file: SimulatedFile) -> None:
        # Zero bytes, all, or any part of the write under way reached the page cache.
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
            file.content[stable_bytes:] = damaged_tail(
                tail, stable_bytes, self.rng, whole_pages=file.durability is Durability.FLUSHED
            )
            self.used_bytes += len(file.content) - before
        file.flushed_bytes = min(file.flushed_bytes, len(file.content))
        if file.fenced_bytes is not None:
            file.fenced_bytes = min(file.fenced_bytes, len(file.content))


def damaged_tail(
    tail: bytes, position: int, rng: random.Random, *, whole_pages: bool = False
) -> bytes:
    """What a crash leaves of unsynced bytes that start at ``position``: any subset of pages.

    A lost page reads as zeros. Unless ``whole_pages``, a page may also be torn at any byte, and
    lost bytes may read as whatever lay there before. The end may be lost at any byte anyway.
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
        fate = rng.randrange(4)
        if fate < 2:
            left += page
        else:
            kept = rng.randint(0, len(page)) if fate == 2 and not whole_pages else 0
            rest = len(page) - kept
            zeros = whole_pages or rng.random() < 0.7
            left += page[:kept] + (bytes(rest) if zeros else rng.randbytes(rest))
        at = page_end
    return bytes(left[: rng.choice([len(left), rng.randint(0, len(left))])])

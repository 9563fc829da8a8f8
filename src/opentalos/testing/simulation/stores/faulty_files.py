"""FaultyFileStore: the FileStore port on a simulated disk, with every fault the port allows.

One instance is one server's client. ``FileFaults`` says how often a call is slow, hangs, fails or
loses its reply; after ``SimulatedDisk.healed`` is set, nothing fails. A failed commit or close
leaves the file dead, as the port demands.
"""

from collections.abc import Sequence

from opentalos.adapters.store_path import check_file_path, check_file_prefix
from opentalos.model.errors import (
    AlreadyExists,
    BadRequest,
    Fenced,
    NotFound,
    OutcomeUnknown,
    RecoveryStuck,
    StorageFull,
    StoreUnavailable,
    WriterDead,
)
from opentalos.model.message import Durability
from opentalos.testing.simulation.loop import SimulatedProcess
from opentalos.testing.simulation.stores.disk import SEGMENT_SUFFIX, SimulatedDisk, SimulatedFile
from opentalos.testing.simulation.stores.faults import FileFaults
from opentalos.testing.simulation.stores.kill_points import KillPoint, points_of_blocks
from opentalos.testing.simulation.stores.troubles import poison_error

WRITE_S = 0.0005  # mean of a write into the page cache
SYNC_S = 0.002  # mean of a sync
LOOKUP_S = 0.0003  # mean of all other calls
HANGS_S = 0.4  # a call that takes longer hangs
FILE_BYTES = 64  # space that the directory entry of a new file takes


class FaultyAppendFile:
    """AppendFile on the simulated disk."""

    def __init__(
        self, store: "FaultyFileStore", path: str, file: SimulatedFile, called_s: float
    ) -> None:
        self._store, self._path, self._file = store, path, file
        self.thin = False  # see the port
        self._closed = self._counted = self._hung = False
        self._called_s = called_s  # since when a call is under way
        self.hung()
        self._called_s = float("inf")
        self._dead: BaseException | None = None
        if path.endswith(SEGMENT_SUFFIX):
            self._counted = True
            store.segments_open[self] = None
            # A store that recovered a file ends its writer, also one that was cut off from it.
            found = [each for each in store.segments_open if not (each.hung() or each.recovered)]
            flushed = any(each._file.durability is Durability.FLUSHED for each in found)
            merges = 1 if flushed else 0  # at a time; what it writes is flushed
            store.disk.observe("segment-open", path, store.process, len(found) - merges)

    async def commit(
        self, chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
    ) -> int:
        """Write, sync, check the fence; see the port."""
        self._check_alive()
        self._called_s = self._store.disk.loop.time()
        before_bytes = len(self._file.content)
        try:
            await self._store.reached(self._path)
            await self._commit(b"".join(chunks), durability or self._file.durability)
            self._check_fence()
        except BaseException as error:
            self._dead = error
            self._count_closed()
            raise
        self.hung()
        self._called_s = float("inf")
        self.thin = self.thin or self._store.disk.hits(self._store.faults.thin)
        self._file.before_last_bytes = before_bytes
        self._file.committed_s = self._store.disk.loop.time()
        length = len(self._file.content)
        self._store.disk.observe("file-commit", self._path, self._store.process, length)
        return length

    async def close(self) -> int:
        """Sync and make immutable; see the port."""
        if self._closed and self._dead is None:
            return len(self._file.content)
        self._check_alive()
        self._called_s = self._store.disk.loop.time()
        store, file = self._store, self._file
        try:
            await store.reached(self._path, write=False)
            if store.disk.hits(store.faults.close_fails):
                raise OutcomeUnknown(f"{self._path}: simulated failure of close")
            await store.disk.after(
                store.delay(SYNC_S), lambda: store.disk.sync(file, to_platter=True)
            )
            self._check_fence()
        except BaseException as error:
            self._dead = error
            raise
        finally:
            self._count_closed()
        self._closed = True
        return len(file.content)

    @property
    def recovered(self) -> bool:
        """Whether it was fenced."""
        return self._file.fenced_bytes is not None

    def _count_closed(self) -> None:
        if self._counted:
            self._counted = False
            self._store.segments_open.pop(self, None)

    def hung(self) -> bool:
        """Whether a call of it ever hung: a server may open another file instead."""
        busy_s = self._store.disk.loop.time() - self._called_s
        self._hung = self._hung or busy_s > HANGS_S
        return self._hung

    async def _commit(self, data: bytes, durability: Durability) -> None:
        store, file, disk, faults = self._store, self._file, self._store.disk, self._store.faults
        fails = disk.hits(faults.commit_fails)
        written = data[: disk.rng.choice([0, len(data), disk.rng.randint(0, len(data))])]
        poison, before_poison = disk.troubles.poison_in(data, faults)
        if poison:
            fails, written = True, data[:before_poison]
        slow_s = 0.0
        if disk.hits(faults.commit_slow):
            slow_s = disk.rng.random() * faults.slow_s
        elif disk.hits(faults.commit_hangs):
            slow_s = disk.rng.random() * faults.hang_s
        file.in_flight = data
        first = not file.content
        points: list[KillPoint] = []
        if not fails and self._path.endswith(SEGMENT_SUFFIX) and disk.kills.watches(store.process):
            points += points_of_blocks(data)

        def write() -> None:
            file.in_flight = b""  # a kill before the write must not tear it
            disk.kills.before(store.process, points)
            disk.write(file, written if fails else data)

        def sync() -> None:
            disk.sync(file, to_platter=to_platter, fails=lies)
            disk.kills.after(store.process, points)

        await disk.after(store.delay(WRITE_S), write)
        synced = first or durability is Durability.SYNCED
        to_platter = synced or disk.hits(faults.writeback)
        lies = fails and (len(written) < len(data) or disk.hits(faults.sync_lies))
        await disk.after(store.delay(SYNC_S) + slow_s, sync)
        if poison:
            raise poison_error(poison, self._path)
        if fails:
            raise OutcomeUnknown(f"{self._path}: simulated failure of a commit")

    def _check_alive(self) -> None:
        if self._dead is not None:
            raise WriterDead(f"{self._path}: an earlier call failed") from self._dead
        if self._closed or self._store.closed:
            raise WriterDead(f"{self._path}: closed")

    def _check_fence(self) -> None:
        if self._file.fenced:
            raise Fenced(f"{self._path}: another server owns the file")


class FaultyFileStore:
    """One server's client of the simulated disk."""

    def __init__(self, disk: SimulatedDisk, process: SimulatedProcess, faults: FileFaults) -> None:
        self.disk, self.process, self.faults = disk, process, faults
        self.closed = False
        # For writing.
        self.segments_open: dict[FaultyAppendFile, None] = {}
        disk.entries_undone = max(disk.entries_undone, faults.entries_undone)

    def delay(self, mean_s: float) -> float:
        """The duration of one operation of the disk."""
        return mean_s * (0.2 + 1.6 * self.disk.rng.random())

    async def create(self, path: str, *, durability: Durability) -> FaultyAppendFile:
        """Make a file; see the port."""
        self._check_open()
        check_file_path(path)
        disk = self.disk
        called_s = disk.loop.time()
        await self.reached(path)
        if disk.hits(self.faults.create_fails):
            raise StoreUnavailable(f"{path}: simulated failure of create")
        unknown = disk.hits(self.faults.create_unknown)
        if not (unknown and disk.hits(0.5)):
            file = await disk.after(self.delay(SYNC_S), lambda: self._create(path, durability))
        if unknown:
            raise OutcomeUnknown(f"{path}: simulated loss of the answer to create")
        return FaultyAppendFile(self, path, file, called_s)

    async def recover(self, path: str, *, deadline_s: float) -> int:
        """Fence the writer, then freeze and measure; see the port."""
        self._check_open()
        check_file_path(path)
        disk = self.disk
        await self.reached(path, deadline_s=deadline_s)
        if not disk.healed and disk.refusals.refuses(path, self.faults):
            disk.observe("recover-refused", path, self.process, 0)
            raise StoreUnavailable(f"{path}: simulated refusal of recover")
        slow_s = disk.rng.random() * self.faults.slow_s if self._slow() else 0.0
        if disk.hits(self.faults.recover_stuck) or slow_s > deadline_s:
            if disk.hits(0.5):
                await disk.after(self.delay(SYNC_S), lambda: disk.fence(self._file(path)))
            await disk.after(deadline_s, lambda: None)
            raise RecoveryStuck(path)
        await disk.after(self.delay(SYNC_S) + slow_s, lambda: disk.fence(self._file(path)))
        length = await disk.after(self.delay(SYNC_S), lambda: disk.measure(self._file(path)))
        disk.observe("file-recover", path, self.process, length)
        return length

    async def read(self, path: str, *, position: int, bytes_max: int) -> bytes:
        """Bytes as readers see them, synced or not; see the port."""
        self._check_open()
        check_file_path(path)
        if position < 0 or bytes_max < 0:
            raise BadRequest(f"{path}: cannot read {bytes_max} bytes at {position}")
        await self.reached(path, write=False)
        if self.disk.hits(self.faults.read_fails):
            raise StoreUnavailable(f"{path}: simulated failure of read")
        return await self.disk.after(
            self.delay(LOOKUP_S), lambda: self._file(path).visible()[position:][:bytes_max]
        )

    async def list(self, prefix: str) -> Sequence[str]:
        """Paths below a folder, sorted; see the port."""
        self._check_open()
        folder = check_file_prefix(prefix)
        await self.reached(f"{folder}/", write=False)
        start = f"{folder}/" if folder else ""
        return await self.disk.after(
            self.delay(LOOKUP_S),
            lambda: sorted(path for path in self.disk.files if path.startswith(start)),
        )

    async def delete(self, path: str) -> None:
        """Fence and remove; see the port."""
        self._check_open()
        check_file_path(path)
        await self.reached(path, write=False)
        if self.disk.hits(self.faults.delete_fails):
            raise StoreUnavailable(f"{path}: simulated failure of delete")
        await self.disk.after(self.delay(LOOKUP_S), lambda: self.disk.remove(path))

    async def space(self) -> int:
        """Free bytes; see the port."""
        self._check_open()
        return max(0, self.disk.capacity_bytes - self.disk.used_bytes)

    async def close(self) -> None:
        """Close this client; its open files are dead."""
        self.closed = True

    async def reached(
        self, path: str, *, write: bool = True, deadline_s: float = float("inf")
    ) -> None:
        """A call reaches the path's storage; while that hangs, it does not.

        Raises: StoreUnavailable, InjectedError: nothing was done. RecoveryStuck.
        """
        if write:
            _check_stuck(self.disk, path)
        troubles = self.disk.troubles
        troubles.check_machine(self.faults)
        hang_s = troubles.hang_s(path)
        if hang_s > deadline_s:
            await self.disk.after(deadline_s, lambda: None)
            raise RecoveryStuck(path)
        if hang_s > 0:
            await self.disk.after(hang_s, lambda: None)

    def _slow(self) -> bool:
        return self.disk.hits(self.faults.recover_slow)

    def _create(self, path: str, durability: Durability) -> SimulatedFile:
        if path in self.disk.files:
            raise AlreadyExists(path)
        if self.disk.used_bytes + FILE_BYTES > self.disk.capacity_bytes:
            raise StorageFull(f"{path}: no space for a new file")
        file = self.disk.files[path] = SimulatedFile(durability, self.process)
        return file

    def _file(self, path: str) -> SimulatedFile:
        file = self.disk.files.get(path)
        if file is None:
            raise NotFound(path)
        return file

    def _check_open(self) -> None:
        if self.closed:
            raise StoreUnavailable("the file store is closed")


def _check_stuck(disk: SimulatedDisk, path: str) -> None:
    """Raises: StoreUnavailable: writes below this topic's folder are rejected now."""
    if not disk.healed and path.partition("/")[0] in disk.stuck:
        raise StoreUnavailable(f"{path}: simulated: this topic's storage rejects writes")

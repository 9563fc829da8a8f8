"""FaultyMetaStore: the MetaStore port in simulated memory, with every fault the port allows.

``MemoryMetaStore`` implements the semantics; this module adds delays, lost replies, rejections and
watches that lag. A write whose reply is lost is applied before the loss is reported or never: the
services behind this port order the calls of one session. With ``unknown_later`` it may also be
applied later, as after a new session, if its condition still holds then.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from opentalos.adapters.memory import MemoryMetaStore
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable, TalosError
from opentalos.ports.meta_store import Record, Session
from opentalos.testing.simulation.loop import SimulatedProcess
from opentalos.testing.simulation.stores.disk import SimulatedDisk
from opentalos.testing.simulation.stores.faults import MetaFaults
from opentalos.testing.simulation.stores.kill_points import KillPoint, points_of_record
from opentalos.testing.simulation.stores.kills import killable

T = TypeVar("T")

READ_S = 0.0005  # mean of a lookup
WRITE_S = 0.002  # mean of a durable write


def run_now(call: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        call.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    raise AssertionError("a call of a memory store waited")


class FaultyMetaStore:
    """One server's client of the simulated coordination service."""

    def __init__(self, disk: SimulatedDisk, process: SimulatedProcess, faults: MetaFaults) -> None:
        self._disk, self._process, self._faults = disk, process, faults
        self._inner = MemoryMetaStore(disk.records)

    async def get(self, path: str) -> Record | None:
        """Linearizable; see the port."""
        return await self._read(lambda: self._inner.get(path))

    async def children(self, path: str) -> Sequence[str]:
        """Direct child names; see the port."""
        return await self._read(lambda: self._inner.children(path))

    async def create(self, path: str, value: bytes, *, ephemeral: bool = False) -> int:
        """Add a record; see the port."""
        return await self._write(
            lambda: self._inner.create(path, value, ephemeral=ephemeral), path, value
        )

    async def replace(self, path: str, value: bytes, expected: int) -> int:
        """Compare-and-set; see the port."""
        return await self._write(lambda: self._inner.replace(path, value, expected), path, value)

    async def delete(self, path: str, expected: int) -> None:
        """Compare-and-remove; see the port."""
        await self._write(lambda: self._inner.delete(path, expected), path, None)

    async def watch(self, prefix: str) -> AsyncIterator[Mapping[str, Record]]:
        """States in order, some of them delayed; see the port."""
        states = self._inner.watch(prefix)
        try:
            async for state in states:
                if self._disk.hits(self._faults.watch_stale):
                    late_s = self._disk.rng.random() * self._faults.slow_s
                    await self._disk.after(late_s, lambda: None)
                yield state
        finally:
            await states.aclose()  # type: ignore[attr-defined]  # it is an async generator

    def session(self) -> Session:
        """Sessions do not expire here; see the port."""
        return self._inner.session()

    async def close(self) -> None:
        """End the session; see the port."""
        await self._inner.close()

    def lose_process(self) -> None:
        """The client crashed: its session ends and its ephemeral records are removed.

        The inner client stays open, because a write in flight may still be applied.
        """
        storage = self._disk.records
        owned = [path for path, kept in storage.records.items() if kept.owner is self._inner]
        for path in owned:
            del storage.records[path]
            storage.record_changed(path)

    def end_session(self) -> None:
        """The service ended the session: its ephemeral records go, later calls are rejected."""
        run_now(self._inner.close())

    async def _read(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        disk = self._disk
        if disk.hits(self._faults.unavailable):
            raise StoreUnavailable("simulated: the meta store does not answer")
        return await disk.after(self._delay(READ_S), lambda: run_now(call()))

    async def _write(
        self, call: Callable[[], Coroutine[Any, Any, T]], path: str, value: bytes | None
    ) -> T:
        disk, faults = self._disk, self._faults
        apply = lambda: self._apply(call, path, value)  # noqa: E731  # shared by two uses
        if disk.hits(faults.unavailable):
            raise StoreUnavailable("simulated: the meta store does not answer")
        if not disk.hits(faults.unknown):
            return await disk.after(self._delay(WRITE_S), apply)
        if disk.hits(0.5):
            await disk.after(self._delay(WRITE_S), apply)
        elif faults.unknown_later and disk.troubles.rng.random() < faults.unknown_later:
            late_s = disk.troubles.rng.random() * faults.slow_s
            disk.later(late_s, lambda: _apply_late(apply))
        raise OutcomeUnknown("simulated: the reply of the meta store was lost")

    def _apply(
        self, call: Callable[[], Coroutine[Any, Any, T]], path: str, value: bytes | None
    ) -> T:
        # A crash between sending and applying leaves it open whether the write happens.
        if self._process.crashed and self._disk.rng.random() < 0.5:
            raise OutcomeUnknown("simulated: the caller has crashed")

        def points() -> Iterator[KillPoint]:
            kept = self._disk.records.records.get(path)
            return points_of_record(path, kept.record.value if kept else None, value)

        return killable(self._disk.kills, self._process, lambda: run_now(call()), points)

    def _delay(self, mean_s: float) -> float:
        delay_s = mean_s * (0.2 + 1.6 * self._disk.rng.random())
        if self._disk.hits(self._faults.slow):
            delay_s += self._disk.rng.random() * self._faults.slow_s
        return delay_s


def _apply_late(apply: Callable[[], object]) -> None:
    try:
        apply()
    except TalosError:
        return  # its condition does not hold any more, or its caller has crashed

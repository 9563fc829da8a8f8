"""FaultyRowStore: the RowStore port in simulated memory, with every fault the port allows.

``MemoryRowStore`` implements the semantics. Unlike the meta store, a write whose reply is lost may
be applied seconds later, if its condition still holds then.
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from opentalos.adapters.memory import MemoryRowStore
from opentalos.adapters.row_rules import check_mutations
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable, TalosError
from opentalos.ports.row_store import FamilyName, Row, RowMutation
from opentalos.testing.simulation.loop import SimulatedProcess
from opentalos.testing.simulation.stores.disk import SimulatedDisk
from opentalos.testing.simulation.stores.faults import RowFaults
from opentalos.testing.simulation.stores.faulty_meta import READ_S, WRITE_S, run_now
from opentalos.testing.simulation.stores.kill_points import (
    ROW_TABLES,
    KillPoint,
    is_index,
    points_of_mutation,
)
from opentalos.testing.simulation.stores.kills import killable

T = TypeVar("T")
KillPoints = Callable[[], Iterator[KillPoint]]

LATE_S = 5.0  # a write whose reply was lost is applied this much later at most


class FaultyRowStore:
    """One server's client of the simulated table service."""

    def __init__(self, disk: SimulatedDisk, process: SimulatedProcess, faults: RowFaults) -> None:
        self._disk, self._process, self._faults = disk, process, faults
        self._inner = MemoryRowStore(disk.records)

    async def open_table(self, table: str, *, splits: Sequence[bytes] = ()) -> None:
        """Create the table if it does not exist; see the port."""
        await self._read(lambda: self._inner.open_table(table, splits=splits))

    async def drop_table(self, table: str) -> None:
        """Remove the table; see the port."""
        await self._read(lambda: self._inner.drop_table(table), lambda: _of_drop(table))

    async def get(
        self, table: str, keys: Sequence[bytes], *, family: FamilyName = FamilyName.DATA
    ) -> Sequence[Row | None]:
        """Rows in the order asked; see the port."""
        return await self._read(lambda: self._inner.get(table, keys, family=family))

    async def mutate(self, table: str, mutation: RowMutation) -> int:
        """One compare-and-set; see the port."""
        disk, faults = self._disk, self._faults
        if disk.hits(faults.unavailable):
            raise StoreUnavailable("simulated: the row store does not answer")
        call = lambda: self._inner.mutate(table, mutation)  # noqa: E731  # shared by three uses
        points = lambda: points_of_mutation(table, mutation)  # noqa: E731
        if not disk.hits(faults.unknown):
            return await disk.after(self._delay(WRITE_S), lambda: self._apply(call, points))
        if disk.hits(faults.unknown_later):
            disk.later(disk.rng.random() * LATE_S, lambda: _apply_late(call))
        elif disk.hits(0.5):
            await disk.after(self._delay(WRITE_S), lambda: self._apply(call, points))
        raise OutcomeUnknown("simulated: the reply of the row store was lost")

    async def mutate_many(
        self, table: str, mutations: Sequence[RowMutation]
    ) -> Sequence[int | TalosError]:
        """One outcome per mutation, each with its own faults; see the port."""
        check_mutations(mutations)
        run_now(self._inner.get(table, []))  # a table that is not open fails the whole call
        outcomes: list[int | TalosError] = []
        for mutation in mutations:
            try:
                outcomes.append(await self.mutate(table, mutation))
            except TalosError as error:
                outcomes.append(error)
        return outcomes

    async def scan(
        self,
        table: str,
        start: bytes,
        stop: bytes,
        *,
        limit: int,
        reverse: bool = False,
        family: FamilyName = FamilyName.DATA,
    ) -> Sequence[Row]:
        """Rows of a key range; see the port."""
        return await self._read(
            lambda: self._inner.scan(
                table, start, stop, limit=limit, reverse=reverse, family=family
            ),
            lambda: self._of_scan(table, family),
        )

    async def close(self) -> None:
        """Close this client."""
        await self._inner.close()

    async def _read(
        self, call: Callable[[], Coroutine[Any, Any, T]], points: KillPoints = lambda: iter(())
    ) -> T:
        disk = self._disk
        if disk.hits(self._faults.unavailable):
            raise StoreUnavailable("simulated: the row store does not answer")
        return await disk.after(self._delay(READ_S), lambda: self._killable(call, points))

    def _apply(self, call: Callable[[], Coroutine[Any, Any, T]], points: KillPoints) -> T:
        # A crash between sending and applying leaves it open whether the write happens.
        if self._process.crashed and self._disk.rng.random() < 0.5:
            raise OutcomeUnknown("simulated: the caller has crashed")
        return self._killable(call, points)

    def _killable(self, call: Callable[[], Coroutine[Any, Any, T]], points: KillPoints) -> T:
        return killable(self._disk.kills, self._process, lambda: run_now(call()), points)

    def _of_scan(self, table: str, family: FamilyName) -> Iterator[KillPoint]:
        of_rows = table.startswith(ROW_TABLES) and not is_index(table)
        if of_rows and family is FamilyName.PENDING and self._disk.kills.opens(self._process):
            yield KillPoint.READ_PENDING

    def _delay(self, mean_s: float) -> float:
        delay_s = mean_s * (0.2 + 1.6 * self._disk.rng.random())
        if self._disk.hits(self._faults.slow):
            delay_s += self._disk.rng.random() * self._faults.slow_s
        return delay_s


def _of_drop(table: str) -> Iterator[KillPoint]:
    if table.startswith(ROW_TABLES) and not is_index(table):
        yield KillPoint.DROP_ROWS


def _apply_late(call: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Apply a write whose reply was lost, if its condition still holds."""
    try:
        run_now(call())
    except TalosError:
        return

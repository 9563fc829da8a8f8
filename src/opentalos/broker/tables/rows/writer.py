"""ShardWriter: writes the groups of one shard, from reading their rows to answering the callers.

The shard's task calls ``commit`` with one group at a time. Each row is one compare-and-set that has
its new cells and its pending messages, so a change is never stored without its message; an answer
follows the write (I1). An unknown write is repeated with the same write id until its outcome is
known or the deadline has passed (I7).
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from opentalos.broker.tables.row_tables import rows_of
from opentalos.broker.tables.rows.index_writes import IndexWrites, Item
from opentalos.broker.tables.rows.row_cache import RowCache
from opentalos.broker.tables.rows.row_work import RowWork, TableView, Waiting
from opentalos.broker.tables.stream.outbox import Entry, Outbox
from opentalos.model.errors import (
    OutcomeUnknown,
    StoreUnavailable,
    TalosError,
    VersionConflict,
)
from opentalos.model.settings.tables import SdsLimits
from opentalos.ports.clock import Clock
from opentalos.ports.row_store import ABSENT, FamilyName, Row, RowMutation, RowStore
from opentalos.sds.cell_format import decode_row
from opentalos.sds.index_format import IndexChange, entry_changes

ATTEMPTS_MAX = 8  # of rows that other servers keep changing
REPEAT_S = 0.05  # before an unknown write is retried; doubles
REPEAT_MAX_S = 0.5
TOKEN_BYTES, WRITE_NUMBER_BYTES = 10, 6  # of a write's id
LOADS_MAX = 8  # tries to read both families of a row as of one version


class Stores(NamedTuple):
    """What every shard of a server shares."""

    rows: RowStore
    cache: RowCache
    indexes: IndexWrites
    clock: Clock
    limits: SdsLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What a writer needs of its shard.

    ``number``: of the opening, for the cache. ``now_ms``: time of the group's changes, later than
    every mark that was issued. ``check`` raises Unavailable if this server must not write now.
    ``outbox``: None while the table has no stream. ``publish``: these are durable and have to be
    published, each row's in order.
    """

    number: int
    now_ms: Callable[[], int]
    check: Callable[[], None]
    outbox: Outbox | None
    publish: Callable[[Iterable[Entry]], None]


class ShardWriter:
    """Writes one group at a time. ``doubt``: the outcome of a write could not be found out, so the
    shard has to reopen before its next group."""

    def __init__(self, stores: Stores, opening: Opening) -> None:
        self.stores, self._opening = stores, opening
        self._number, self._outbox = opening.number, opening.outbox
        self._view: TableView
        self._token, self._writes = stores.clock.token(TOKEN_BYTES), 0
        self.doubt = False

    async def commit(self, view: TableView, group: Sequence[Waiting], clear_max: int) -> None:
        """Apply and answer a group, and clear cells of up to ``clear_max`` other rows."""
        self._view = view
        works: dict[bytes, RowWork] = {}
        for waiting in group:
            work = works.get(waiting.key)
            if work is None:
                work = works[waiting.key] = RowWork(waiting.key)
            work.waiting.append(waiting)
        left = list(works.values())
        started = False
        try:
            clears = await self._clears(works, clear_max)
            for _ in range(ATTEMPTS_MAX):
                left = await self._decided(left)
                if not left and not clears:
                    return
                former = await self._put_entries(left)
                self._opening.check()
                started = True
                left = await self._written(left, clears, former)
                started, clears = False, []
            self._refuse(left, StoreUnavailable("the row changes too often"))
        except TalosError as error:
            self._refuse(left, error)
        except BaseException:
            text = "the server stopped"
            self._refuse(left, OutcomeUnknown(text) if started else StoreUnavailable(text))
            raise

    def _refuse(self, works: Iterable[RowWork], error: TalosError) -> None:
        for work in works:
            work.refuse(error)

    # --- reading --------------------------------------------------------------------------------

    async def _decided(self, works: Sequence[RowWork]) -> list[RowWork]:
        """Apply the mutations; answer works that have nothing to write and return the others.

        "Nothing to write" is decided only from a row that was read now: a cached row may be older
        than another server's write, which only a compare-and-set would detect.
        """
        await self._load(works)
        now_ms = max(self._opening.now_ms(), self._view.gap_ms)
        bytes_max = self.stores.limits.record_bytes_max
        for work in works:
            work.decide(self._view, now_ms, bytes_max)
        remembered = [work for work in works if not work.cells and work.cached]
        if remembered:
            for work in remembered:
                self._forget(work)
            await self._load(remembered)
            for work in remembered:
                work.decide(self._view, now_ms, bytes_max)
        left = []
        for work in works:
            if work.cells:
                left.append(work)
            else:
                work.answer()
        return left

    async def _load(self, works: Iterable[RowWork]) -> None:
        missing = []
        for work in works:
            if work.loaded:
                continue
            found = self.stores.cache.get(self._number, work.key)
            if found is None:
                missing.append(work)
            else:
                work.load_cached(found)
        for _ in range(LOADS_MAX):
            if not missing:
                return
            missing = await self._read(missing)
        raise StoreUnavailable("rows change while they are read; retry")

    async def _read(self, works: Sequence[RowWork]) -> list[RowWork]:
        """Read rows with their pending cells; return those that have to be read again."""
        keys = [work.key for work in works]
        rows = await self._get(keys, FamilyName.DATA)
        pending: dict[bytes, Row | None] = {}
        there = [row.key for row in rows if row is not None]
        if self._outbox is not None and there:
            found = await self._get(there, FamilyName.PENDING)
            pending = dict(zip(there, found, strict=True))
        again = []
        for work, row in zip(works, rows, strict=True):
            version, other = row.version if row else ABSENT, pending.get(work.key)
            if work.key in pending and version != (other.version if other else ABSENT):
                again.append(work)
                continue
            cells = row.cells if row else {}
            work.load(version, decode_row(cells), sum(map(len, cells.values())))
            self._take_found(other)
            self._keep(work)
        return again

    async def _get(self, keys: Sequence[bytes], family: FamilyName) -> Sequence[Row | None]:
        stores = self.stores
        try:
            async with asyncio.timeout(stores.limits.write_deadline_s):
                return await stores.rows.get(rows_of(self._view.table), keys, family=family)
        except TimeoutError as error:
            raise StoreUnavailable("the row store does not answer") from error

    def _take_found(self, row: Row | None) -> None:
        """Entries of a former owner are published before anything that is written after them."""
        if row is not None and self._outbox is not None:
            self._opening.publish(self._outbox.add_found(row.key, row.cells))

    def _keep(self, work: RowWork) -> None:
        self.stores.cache.put(self._number, work.key, work.as_loaded())

    def _forget(self, work: RowWork) -> None:
        self.stores.cache.forget(self._number, work.key)
        work.forget()

    # --- writing --------------------------------------------------------------------------------

    async def _put_entries(self, works: Iterable[RowWork]) -> Mapping[Item, int]:
        """Put the new entries; return the versions that the old ones have now."""
        table, indexes = self._view.table, self.stores.indexes
        if not table.schema.indexes:
            return {}
        changes = [self._entry_changes(work) for work in works]
        try:
            await indexes.put(table, [item for change in changes for item in change.puts])
        except OutcomeUnknown as error:  # the row was not touched: nothing is done
            raise StoreUnavailable(f"entries of an index: {error}") from error
        return await indexes.found(table, [item for change in changes for item in change.removals])

    def _entry_changes(self, work: RowWork) -> IndexChange:
        key = work.waiting[0].mutation.key
        return entry_changes(self._view.table.schema, key, work.before, work.after)

    async def _written(
        self,
        works: Sequence[RowWork],
        clears: Sequence[RowMutation],
        former: Mapping[Item, int],
    ) -> list[RowWork]:
        """Write, answer, remove old index entries; return works that another server overtook."""
        mutations = [*map(self._mutation, works), *clears]
        outcomes = await self._mutate(mutations)
        overtaken: list[RowWork] = []
        written: list[RowWork] = []
        removals: dict[Item, int] = {}
        for work, mutation, outcome in zip(works, mutations, outcomes, strict=False):
            if isinstance(outcome, int):
                if former:
                    old = self._entry_changes(work).removals
                    removals.update({item: former[item] for item in old if item in former})
                self._succeeded(work, mutation, outcome)
                written.append(work)
            else:
                self._forget(work)
                if isinstance(outcome, VersionConflict):
                    overtaken.append(work)
                else:
                    self.doubt = self.doubt or isinstance(outcome, OutcomeUnknown)
                    work.refuse(outcome)
        for mutation, outcome in zip(clears, outcomes[len(works) :], strict=True):
            self._cleared(mutation, outcome)
        if self._outbox is not None and written:
            self._opening.publish([entry for work in written for entry in work.entries])
        for work in written:
            work.answer()
        if removals:
            await self._remove_entries(removals)
        return overtaken

    def _mutation(self, work: RowWork) -> RowMutation:
        pending = work.pending
        if self._outbox is not None and (published := self._outbox.published_columns(work.key)):
            pending = {**dict.fromkeys(published), **pending}
        return RowMutation(
            key=work.key,
            expected=work.version,
            write_id=self._write_id(),
            data=work.cells,
            pending=pending,
        )

    def _write_id(self) -> bytes:
        """A unique id: this writer's random part and a counter."""
        self._writes += 1
        return self._token + self._writes.to_bytes(WRITE_NUMBER_BYTES)

    def _succeeded(self, work: RowWork, mutation: RowMutation, version: int) -> None:
        self.stores.cache.put(self._number, work.key, work.stored(version))
        if self._outbox is not None:
            if len(mutation.pending) > len(work.pending):
                self._outbox.cleared(work.key, _removed(mutation.pending))
            for entry in work.entries:
                self._outbox.add(entry)

    async def _remove_entries(self, removals: Mapping[Item, int]) -> None:
        try:
            await self.stores.indexes.remove(self._view.table, removals)
        except TalosError:
            return  # readers verify entries; what is left is removed with the row's next entry

    async def _mutate(self, mutations: Sequence[RowMutation]) -> list[int | TalosError]:
        """Write; return outcomes in order. Unknown writes are repeated, which is idempotent, until
        the deadline."""
        stores, loop = self.stores, asyncio.get_running_loop()
        deadline_s = loop.time() + stores.limits.write_deadline_s
        found = await self._try(mutations, deadline_s)
        if not any(isinstance(outcome, OutcomeUnknown) for outcome in found):
            return list(found)
        outcomes: dict[bytes, int | TalosError] = {}
        unknown: dict[bytes, TalosError] = {}
        left, pause_s = list(mutations), REPEAT_S
        while True:
            for mutation, outcome in zip(left, found, strict=True):
                if mutation.key in unknown and isinstance(outcome, TalosError):
                    outcome = unknown[mutation.key]  # perhaps a conflict with that write
                elif isinstance(outcome, OutcomeUnknown):
                    unknown[mutation.key] = outcome
                outcomes[mutation.key] = outcome
            left = [
                mutation for mutation in left if isinstance(outcomes[mutation.key], OutcomeUnknown)
            ]
            if not left or loop.time() + pause_s > deadline_s or self._must_stop():
                return [outcomes[mutation.key] for mutation in mutations]
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, REPEAT_MAX_S)
            found = await self._try(left, deadline_s)

    async def _try(
        self, mutations: Sequence[RowMutation], deadline_s: float
    ) -> Sequence[int | TalosError]:
        try:
            async with asyncio.timeout_at(deadline_s):
                return await self.stores.rows.mutate_many(rows_of(self._view.table), mutations)
        except TimeoutError:
            return [OutcomeUnknown("the row store does not answer")] * len(mutations)
        except TalosError as error:
            return [error] * len(mutations)

    def _must_stop(self) -> bool:
        try:
            self._opening.check()
        except TalosError:
            return True
        return False

    # --- clearing -------------------------------------------------------------------------------

    async def _clears(self, works: Mapping[bytes, RowWork], count_max: int) -> list[RowMutation]:
        """Removals of cells that are published, in rows that the group does not write."""
        outbox = self._outbox
        if outbox is None or not count_max:
            return []
        keys = [key for key in outbox.to_clear(count_max) if key not in works]
        versions = await self._versions(keys)
        return [
            RowMutation(
                key=key,
                expected=versions[key],
                write_id=self._write_id(),
                pending=dict.fromkeys(outbox.published_columns(key)),
            )
            for key in keys
            if key in versions
        ]

    async def _versions(self, keys: Sequence[bytes]) -> dict[bytes, int]:
        """Versions of rows, without those whose cells are gone."""
        assert self._outbox is not None
        versions: dict[bytes, int] = {}
        unknown = []
        for key in keys:
            found = self.stores.cache.get(self._number, key)
            if found is None:
                unknown.append(key)
            else:
                versions[key] = found.version
        if unknown:
            rows = await self._get(unknown, FamilyName.PENDING)
            for key, row in zip(unknown, rows, strict=True):
                self._take_found(row)
                published = self._outbox.published_columns(key)
                there = row.cells if row else {}
                self._outbox.cleared(key, [column for column in published if column not in there])
                if row is not None and self._outbox.published_columns(key):
                    versions[key] = row.version
        return versions

    def _cleared(self, mutation: RowMutation, outcome: int | TalosError) -> None:
        assert self._outbox is not None
        if isinstance(outcome, int):
            self._outbox.cleared(mutation.key, mutation.pending)
        else:  # checked again with the next clearing
            self.stores.cache.forget(self._number, mutation.key)


def _removed(cells: Mapping[bytes, bytes | None]) -> list[bytes]:
    return [column for column, cell in cells.items() if cell is None]

"""RowStore: rows of two families with one compare-and-set per row (SQLite, HBase)."""

from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple, Protocol

from opentalos.model.errors import TalosError

ABSENT = 0  # expected version of a row that must not exist
Family = Mapping[bytes, bytes]  # column to cell
NO_CHANGES: Mapping[bytes, bytes | None] = MappingProxyType({})


class FamilyName(Enum):
    """The two families of every row."""

    DATA = "data"
    PENDING = "pending"


class Row(NamedTuple):
    """One row's cells of the family that was asked for. ``version`` > 0 grows with each
    write, but not with one that only removes pending cells."""

    key: bytes
    version: int
    cells: Family


class RowMutation(NamedTuple):
    """One atomic write to one row, both families. A None cell is removed.

    One that removes pending cells of a row and does nothing else leaves its version as it is.
    ``write_id`` makes an identical repeat harmless: if the row's last write had this id, the
    repeat succeeds with the version that write gave.
    """

    key: bytes
    expected: int  # version, or ABSENT
    write_id: bytes  # 1 to 16 bytes, unique per intended write
    data: Mapping[bytes, bytes | None] = NO_CHANGES
    pending: Mapping[bytes, bytes | None] = NO_CHANGES
    delete: bool = False  # remove the whole row; later creates still get a larger version


class RowStore(Protocol):
    """Rows sorted by key bytes. Every write is a compare-and-set; there is no blind put.

    ``open_table`` is idempotent; ``splits`` are region start keys where the backend has regions.
    ``get`` returns None for an absent row, in the order asked. ``mutate`` returns the new version;
    VersionConflict: not done. ``mutate_many`` returns one version or error per mutation, in order;
    mutations of one call must be of distinct rows. ``scan`` covers start <= key < stop (``b""``
    as stop: to the end), at most ``limit`` rows; ``reverse`` goes down from the largest key. Of the
    family PENDING it gives only rows that have such cells, and costs little where few have any.
    NotFound for a table that was not opened. Not done: Unavailable; unknown: OutcomeUnknown, to
    be resolved by repeating the identical mutation.
    """

    async def open_table(self, table: str, *, splits: Sequence[bytes] = ()) -> None: ...
    async def drop_table(self, table: str) -> None: ...
    async def get(
        self, table: str, keys: Sequence[bytes], *, family: FamilyName = FamilyName.DATA
    ) -> Sequence[Row | None]: ...
    async def mutate(self, table: str, mutation: RowMutation) -> int: ...
    async def mutate_many(
        self, table: str, mutations: Sequence[RowMutation]
    ) -> Sequence[int | TalosError]: ...
    async def scan(
        self,
        table: str,
        start: bytes,
        stop: bytes,
        *,
        limit: int,
        reverse: bool = False,
        family: FamilyName = FamilyName.DATA,
    ) -> Sequence[Row]: ...
    async def close(self) -> None: ...

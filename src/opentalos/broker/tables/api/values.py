"""Requests to tables and their results; values only."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from opentalos.catalog.tables.table import StreamState, Table
from opentalos.catalog.tables.tables import TABLES
from opentalos.model.datum import Columns
from opentalos.model.errors import TalosError
from opentalos.model.mutation import NOTHING, Mutation, Operation
from opentalos.model.table import AppRight, TableSpec, TeamRight, WhenFull

__all__ = [
    "TABLES",
    "AppRight",
    "BatchItem",
    "BatchOutcome",
    "Got",
    "ReadItem",
    "RowVersion",
    "ScanAction",
    "ScanActionKind",
    "ScanPage",
    "ScanQuery",
    "Size",
    "Split",
    "StreamState",
    "Table",
    "TableSpec",
    "TeamRight",
    "WhenFull",
    "WriteItem",
    "Written",
]


class Written(NamedTuple):
    """What a mutation did. ``success``: False only if its condition did not hold."""

    success: bool
    amounts: Columns = NOTHING  # of an increment: the resulting values


class Got(NamedTuple):
    """What a get of a batch found; None: no such record."""

    columns: Columns | None


class ReadItem(NamedTuple):
    """A get inside a batch. ``attributes``: empty for all columns."""

    table: str
    key: Columns
    attributes: tuple[str, ...] = ()


class WriteItem(NamedTuple):
    """A mutation inside a batch."""

    table: str
    mutation: Mutation


BatchItem = ReadItem | WriteItem
BatchOutcome = Got | Written | TalosError  # an error says by its branch whether it was done


class ScanActionKind(IntEnum):
    """What a scan does with its matches instead of returning them, as clients number it."""

    COUNT = 0
    DELETE = 1
    UPDATE = 2


class ScanAction(NamedTuple):
    """DELETE: of ``attributes``, empty for the whole record. UPDATE: a put of ``columns``, or an
    increment by them."""

    kind: ScanActionKind
    attributes: tuple[str, ...] = ()
    columns: Columns = NOTHING
    operation: Operation = Operation.PUT  # of UPDATE


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanQuery:
    """Records from ``start`` up to but without ``stop``; partial keys are prefixes, empty: the end.

    ``attributes``: empty for all columns. ``condition``: a filter over what was read.
    """

    table: str
    index: str = ""  # empty: by the key
    start: Columns = field(default_factory=dict)
    stop: Columns = field(default_factory=dict)
    attributes: tuple[str, ...] = ()
    condition: str = ""
    limit: int = 10  # records of the page
    reverse: bool = False  # then ``start`` is the larger end
    action: ScanAction | None = None
    versions: bool = False  # also of what is removed or expired; by the key, without condition


class RowVersion(NamedTuple):
    """The last change of a row."""

    timestamp_ms: int
    sequence: int
    removed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPage:
    """One page. ``next_key``: start of the next one, empty at the end of the range. ``count``:
    matches that an action counted, deleted or updated. ``versions``: of each record, if asked for;
    a removed one is its key."""

    records: Sequence[Columns] = ()
    next_key: Columns = field(default_factory=dict)
    throttled: bool = False  # cut short by the table's rate
    count: int | None = None
    versions: Sequence[RowVersion] = ()


class Split(NamedTuple):
    """A part of a table that can be scanned by itself: start and stop of a scan."""

    start: Columns
    stop: Columns


class Size(NamedTuple):
    """An estimate from the first rows of each shard, assuming that the others are similar."""

    rows: int
    bytes: int
    exact: bool  # every row was read

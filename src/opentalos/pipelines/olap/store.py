"""The OLAP store's interface, and the queries that every store supports."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from opentalos.model.errors import BadRequest

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MAX: Final = 10_000  # of an answer
SKETCH_ROWS_MAX: Final = 1_000_000  # counts that one percentile query may merge
TIME: Final = "time"  # of every table, timestamp in UTC
BUCKET: Final = "bucket"  # of a table of sketches, together with COUNT
COUNT: Final = "count"
SKETCHES: Final = "_sketches"  # suffix of a table of sketches
Value = str | int | float
FUNCTIONS: Final = ("sum", "min", "max", "avg", "count")


@dataclass(frozen=True, slots=True)
class Measure:
    """One number per group: ``function`` of ``column``, divided by the sum of ``per`` if given.

    ``per`` requires the function sum; ``count`` takes no column.
    """

    name: str  # of the answer's column
    function: str = "sum"
    column: str = ""
    per: str = ""

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            known = ", ".join(FUNCTIONS)
            raise BadRequest(f"unknown function {self.function!r}; known: {known}")
        if bool(self.column) == (self.function == "count"):
            raise BadRequest("count takes no column, every other function needs one")
        if self.per and self.function != "sum":
            raise BadRequest("only the function sum can be divided by another sum")


@dataclass(frozen=True, slots=True)
class Filter:
    """Rows whose column has one of these values."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rows: those of a table with start_ms <= time < end_ms that pass every filter."""

    table: str
    start_ms: int
    end_ms: int
    filters: tuple[Filter, ...] = ()

    def __post_init__(self) -> None:
        if self.start_ms >= self.end_ms:
            raise BadRequest("the time range is empty: its start must be before its end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A row for each time interval with data and each value of ``by`` in it, ordered by time.

    Answer: time (start of the interval, in Unix ms), the columns ``by``, the measures.
    """

    rows: Selection
    step_ms: int
    measures: tuple[Measure, ...]
    by: tuple[str, ...] = ()
    limit: int = ROWS_MAX

    def __post_init__(self) -> None:
        if self.step_ms < 1:
            raise BadRequest("the interval of a series must be at least one millisecond")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A row for each combination of values of ``by``, ordered by them."""

    rows: Selection
    by: tuple[str, ...]
    measures: tuple[Measure, ...]
    limit: int = ROWS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """As ``Group``, but the ``limit`` largest by the first measure; ties ordered by ``by``."""

    rows: Selection
    by: tuple[str, ...]
    measures: tuple[Measure, ...]
    limit: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentile:
    """Percentiles of the merged sketches of each group, from a table with bucket and count.

    Answer: time if ``step_ms`` is given, the columns ``by``, ``count``, and p50, p99.9, ... .
    """

    rows: Selection
    percents: tuple[float, ...]
    by: tuple[str, ...] = ()
    step_ms: int = 0  # 0: over the whole time range
    limit: int = ROWS_MAX

    def __post_init__(self) -> None:
        if not self.percents or not all(0 <= percent <= 100 for percent in self.percents):
            raise BadRequest("give at least one percentile, each from 0 to 100")

    @property
    def names(self) -> list[str]:
        """Columns of the answer's percentiles."""
        return [f"p{percent:g}" for percent in self.percents]


Query = Series | Group | Top | Percentile


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table and the columns that a query may use, except ``time``."""

    name: str
    columns: tuple[str, ...]
    numbers: frozenset[str] = frozenset()  # numeric columns


def _nothing() -> None:
    """For a writer without a lease."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Who replaces hours: a query, under the epoch of its lease; 0: it has none.

    ``batch``: the query's number of these changes, which a store may take once; -1: it has none.
    ``confirm`` asks whether the lease is still held, for stores that cannot compare epochs
    themselves. It raises LeaseNotHeld if not, and Unavailable if nobody answers.
    """

    query: str = ""
    epoch: int = 0
    confirm: Callable[[], None] = _nothing
    batch: int = -1


NO_LEASE: Final = Writer()


class OlapStore(Protocol):
    """Tables by hour. Every row has ``time``; an hour of a table is replaced atomically.

    ``replace``: replaces an hour of each of these tables, one after the other; on return queries
    see the new rows. It is idempotent. Raises LeaseNotHeld for a run that another one replaced.
    ``query``: at most the query's ``limit`` of rows. Raises: BadRequest (an unknown column, or too
    many rows), NotFound (no such table), Unavailable (the store is down; for ``replace`` the
    outcome is unknown, and it may be repeated).
    """

    def replace(
        self, hour_ms: int, tables: "Mapping[str, pa.Table]", writer: Writer = NO_LEASE
    ) -> None: ...
    def query(self, query: Query) -> "pa.Table": ...
    def tables(self) -> list[TableInfo]: ...
    def close(self) -> None: ...


def checked_columns(table: TableInfo, names: Iterable[str]) -> None:
    """Reject columns that the table does not have: only checked names become part of SQL."""
    for name in names:
        if name not in table.columns:
            known = ", ".join(table.columns)
            raise BadRequest(f"table {table.name} has no column {name!r}; known: {known}")


def checked_value(table: TableInfo, column: str, value: Value) -> Value:
    """The value in the column's type. Raises: BadRequest: a text for a numeric column."""
    if column not in table.numbers:
        return str(value)
    if isinstance(value, str):
        try:
            return int(value) if value.lstrip("-").isdigit() else float(value)
        except ValueError:
            raise BadRequest(
                f"column {column} of table {table.name} is numeric, {value!r} is not a number"
            ) from None
    return value

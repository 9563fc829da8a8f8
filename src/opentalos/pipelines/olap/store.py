"""The OLAP store's interface, and the queries that every store answers alike."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from opentalos.model.errors import BadRequest

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MAX: Final = 10_000  # of an answer
SKETCH_ROWS_MAX: Final = 1_000_000  # counts that one percentile query may merge
TIME: Final = "time"  # of every table, timestamp in UTC
BUCKET: Final = "bucket"  # of a table of sketches, with COUNT beside it
COUNT: Final = "count"
SKETCHES: Final = "_sketches"  # ends the name of a table of sketches
Value = str | int | float
FUNCTIONS: Final = ("sum", "min", "max", "avg", "count")


@dataclass(frozen=True, slots=True)
class Measure:
    """One number made of the rows of a group: ``function`` of ``column``, divided by the sum of
    ``per`` if that is given (then the function is sum). ``count`` needs no column."""

    name: str  # of the answer's column
    function: str = "sum"
    column: str = ""
    per: str = ""

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise BadRequest(f"no function {self.function!r}; known: {', '.join(FUNCTIONS)}")
        if bool(self.column) == (self.function == "count"):
            raise BadRequest("count has no column, every other function needs one")
        if self.per and self.function != "sum":
            raise BadRequest("only a sum is divided by another one")


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
            raise BadRequest("the time range is empty: its start is not before its end")


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A row for each step of time that has rows, and for each value of ``by`` in it, by time.

    Answer: time (start of the step, in Unix ms), the columns ``by``, the measures.
    """

    rows: Selection
    step_ms: int
    measures: tuple[Measure, ...]
    by: tuple[str, ...] = ()
    limit: int = ROWS_MAX

    def __post_init__(self) -> None:
        if self.step_ms < 1:
            raise BadRequest("a step takes at least a millisecond")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A row for each combination of values of ``by``, ordered by them."""

    rows: Selection
    by: tuple[str, ...]
    measures: tuple[Measure, ...]
    limit: int = ROWS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """As ``Group``, but the largest of the first measure come first, and only ``limit`` of
    them; equal ones by the columns."""

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
    step_ms: int = 0  # 0: over the whole time
    limit: int = ROWS_MAX

    def __post_init__(self) -> None:
        if not self.percents or not all(0 <= percent <= 100 for percent in self.percents):
            raise BadRequest("percentiles are between 0 and 100")

    @property
    def names(self) -> list[str]:
        """Columns of the answer's percentiles."""
        return [f"p{percent:g}" for percent in self.percents]


Query = Series | Group | Top | Percentile


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table and the columns that a query may name; ``time`` is not among them."""

    name: str
    columns: tuple[str, ...]
    numbers: frozenset[str] = frozenset()  # those that are no text


class OlapStore(Protocol):
    """Tables by hour. Every row has ``time``; an hour of a table is replaced in one step.

    ``replace``: an hour of each of these tables, one after the other; on return queries see the
    new rows, and the same call again changes nothing.
    ``query``: at most the query's ``limit`` of rows. Raises: BadRequest (a name that the table
    does not have, or too many rows), NotFound (no such table), Unavailable (the store is down;
    for ``replace``: done or not, and safe to repeat).
    """

    def replace(self, hour_ms: int, tables: "Mapping[str, pa.Table]") -> None: ...
    def query(self, query: Query) -> "pa.Table": ...
    def tables(self) -> list[TableInfo]: ...
    def close(self) -> None: ...


def checked_columns(table: TableInfo, names: Iterable[str]) -> None:
    """Refuse names that the table does not have: only checked ones become part of SQL."""
    for name in names:
        if name not in table.columns:
            known = ", ".join(table.columns)
            raise BadRequest(f"{table.name} has no column {name!r}; it has {known}")


def checked_value(table: TableInfo, column: str, value: Value) -> Value:
    """The value as the column has it. Raises: BadRequest: a text for a column of numbers."""
    if column not in table.numbers:
        return str(value)
    if isinstance(value, str):
        try:
            return int(value) if value.lstrip("-").isdigit() else float(value)
        except ValueError:
            raise BadRequest(f"{column} of {table.name} is a number, not {value!r}") from None
    return value

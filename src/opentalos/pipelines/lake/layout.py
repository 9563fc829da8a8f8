"""Values of the lake's tables: their columns, spans of time, batches and files."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from opentalos.model.errors import BadRequest, ConfigError
from opentalos.pipelines.lease import check_epoch

TIME_TYPE: Final = pa.timestamp("us", "UTC")
TARGET_BYTES: Final = 128 << 20  # of a file after compaction
TIME_PROPERTY: Final = "opentalos.time"  # in a table's metadata: the name of ``Layout.time``
_PARTITION_TYPES: Final = (pa.string(), pa.date32())
_PARTITION_VALUE: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}")  # is the name of a folder, too
TIME_US_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True)
class Layout:
    """Columns of a table; a row with the ``key`` of a stored one replaces it in a merge.

    Args: time: a column of ``TIME_TYPE``, by which rows are pruned and expire; key: includes
          ``time`` and ``partition_by``, or is empty if rows are only appended; partition_by:
          columns of text or dates, whose values are folders, so a file has rows of one value.

    Raises: ConfigError: one of these is not a column, may be null or has another type.
    """

    name: str
    schema: pa.Schema
    time: str
    key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (self.time, *self.key, *self.partition_by):
            if name not in self.schema.names or self.schema.field(name).nullable:
                raise ConfigError(f"table {self.name} needs a column {name!r} without nulls")
        if self.schema.field(self.time).type != TIME_TYPE:
            raise ConfigError(f"column {self.time!r} of table {self.name} must be {TIME_TYPE}")
        for name in self.partition_by:
            if self.schema.field(name).type not in _PARTITION_TYPES:
                raise ConfigError(
                    f"table {self.name} cannot be partitioned by {name!r}: its type is "
                    f"{self.schema.field(name).type}; choose a column of text or dates"
                )
        for name in (self.time, *self.partition_by):
            if self.key and name not in self.key:
                raise ConfigError(f"the key of table {self.name} must include {name!r}")

    @cached_property
    def file_schema(self) -> pa.Schema:
        """The columns in a file: partition columns are in its path and in the table's metadata."""
        return pa.schema([item for item in self.schema if item.name not in self.partition_by])

    def split(self, rows: pa.Table) -> Iterator[tuple[tuple[str, ...], pa.Table]]:
        """Rows of each partition, by the texts of its values, with the columns of a file.

        Raises: BadRequest: a value cannot be the name of a folder.
        """
        names = list(self.partition_by)
        if not names:
            yield (), rows
            return
        groups = rows.group_by(names, use_threads=False).aggregate([]).to_pylist()
        for group in groups:
            values = tuple(self._partition_value(name, group[name]) for name in names)
            inside = rows if len(groups) == 1 else rows.filter(self._same(rows, group))
            yield values, inside.select(self.file_schema.names)

    def _partition_value(self, name: str, value: object) -> str:
        if not _PARTITION_VALUE.fullmatch(str(value)):
            raise BadRequest(
                f"rows do not fit table {self.name}: {value!r} cannot be a value of its partition "
                f"column {name!r}; use letters, digits, '.', '_' and '-'"
            )
        return str(value)

    def _same(self, rows: pa.Table, group: dict[str, object]) -> pa.ChunkedArray:
        """Which rows are in a group."""
        equal = (
            pc.equal(rows.column(name), pa.scalar(value, self.schema.field(name).type))
            for name, value in group.items()
        )
        return reduce(pc.and_, equal)

    def rows(self, given: pa.Table) -> pa.Table:
        """The rows with the table's columns, types and order. Raises: BadRequest: they differ."""
        try:
            rows = given.select(self.schema.names).cast(self.schema)
            rows.validate(full=True)
        except (KeyError, ValueError) as error:  # pa.ArrowInvalid is a ValueError
            raise BadRequest(f"rows do not fit table {self.name}: {error}") from error
        return rows

    def merged(self, given: pa.Table) -> pa.Table:
        """As ``rows``, for a merge. Raises: BadRequest: two rows have the same key, or no key."""
        rows = self.rows(given)
        if not self.key:
            raise BadRequest(f"table {self.name} has no key, so rows cannot be merged into it")
        if rows.group_by(list(self.key)).aggregate([]).num_rows < rows.num_rows:
            raise BadRequest(f"rows for table {self.name} contain the same key twice")
        return rows


@dataclass(frozen=True, slots=True)
class Span:
    """Rows with start_ms <= time < end_ms, in Unix milliseconds."""

    start_ms: int = 0
    end_ms: int = TIME_US_MAX // 1000

    def __post_init__(self) -> None:
        if self.start_ms >= self.end_ms:
            raise BadRequest("the time range is empty: its start must be before its end")

    @property
    def start(self) -> pa.Scalar:
        """The first instant."""
        return pa.scalar(self.start_ms * 1000, TIME_TYPE)

    @property
    def end(self) -> pa.Scalar:
        """The first instant after it."""
        return pa.scalar(self.end_ms * 1000, TIME_TYPE)


ALL: Final = Span()


def inside(time: str, span: Span) -> pc.Expression:
    """The condition that the time in a column of this name is in the span."""
    condition = pc.scalar(True)
    if span.start_ms > ALL.start_ms:
        condition &= pc.field(time) >= span.start
    if span.end_ms < ALL.end_ms:
        condition &= pc.field(time) < span.end
    return condition


@dataclass(frozen=True, slots=True)
class Batch:
    """The application transaction of a commit: a query's id, and its batches in ascending order.

    ``number``: below 0: it has none, and is not recorded. ``epoch``: of the lease under which the
    query runs; 0: it has none, and is never refused for it.
    """

    query: str
    number: int
    epoch: int = 0

    @property
    def is_numbered(self) -> bool:
        """Whether a table records it, and takes it once."""
        return self.number >= 0

    @property
    def fence(self) -> str:
        """The name under which a table keeps the highest epoch of the query."""
        return f"lease/{self.query}"

    def check_epoch(self, table: str, newest: int | None) -> None:
        """Return unless a later run of the query has written the table.

        Args:   newest: the highest epoch that the table has seen; None: none.
        Raises: LeaseNotHeld: not done.
        """
        check_epoch(f"batch {self.number} to table {table}", self.epoch, newest or 0)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that is written but not yet part of the table; its path is relative to the table."""

    path: str
    size_bytes: int
    rows: int
    first_us: int  # the smallest time of its rows, Unix microseconds
    last_us: int  # the largest
    partition: tuple[str, ...] = ()  # values of ``Layout.partition_by``

    def within(self, span: Span) -> bool:
        """Whether all of its rows are in the span."""
        return span.start_ms * 1000 <= self.first_us and self.last_us < span.end_ms * 1000

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "DataFile":
        """From the fields of one, of JSON or a row, where tuples are lists."""
        return cls(**{**fields, "partition": tuple(fields["partition"])})


@dataclass(frozen=True, slots=True)
class Seen:
    """Files that contained all rows of some spans, as ``LakeTable.files`` named them."""

    spans: tuple[Span, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableSummary:
    """The size of a table; the times are None if it has no rows, or they are unknown."""

    version: int | None  # of its log; None: it has no log
    files: int
    rows: int
    size_bytes: int
    first_us: int | None
    last_us: int | None


def time_column(name: str, schema: pa.Schema, recorded: str | None) -> str:
    """The column by which rows of an existing table expire.

    Args:   recorded: in its metadata; tables of earlier releases do not have it.
    Raises: ConfigError: it is not recorded, and not exactly one column is possible.
    """
    if recorded is not None:
        return recorded
    found = [item.name for item in schema if item.type == TIME_TYPE and not item.nullable]
    if len(found) != 1:
        raise ConfigError(
            f"could not open table {name}: {len(found)} of its columns may be its time "
            f"({', '.join(found) or 'none'}); name one"
        )
    return str(found[0])

"""The port of a table in the lake: rows by time, committed in batches, each batch once.

A writer has two steps, so that rows need not pass through the driver: ``writer()`` writes files
where the rows are, and ``commit`` makes them rows of the table. Files that were never committed,
because a task or the driver was killed, are invisible, and ``vacuum`` removes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from opentalos.model.errors import BadRequest, ConfigError
from opentalos.pipelines.lake.tables import HOUR_MS

if TYPE_CHECKING:
    from opentalos.pipelines.lake.file_writer import FileWriter

TIME_TYPE: Final = pa.timestamp("us", "UTC")
UNUSED_HOURS: Final = 168  # longer than any query or task that may still use a file
_TIME_US_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of a table; a row with the ``key`` of a stored one replaces it in a merge.

    Args: time: a column of ``TIME_TYPE``, by which rows are pruned and expire; key: includes
          ``time``, or is empty if rows are only appended.

    Raises: ConfigError: ``time`` or ``key`` is not a column, may be null or has another type.
    """

    name: str
    schema: pa.Schema
    time: str
    key: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (self.time, *self.key):
            if name not in self.schema.names or self.schema.field(name).nullable:
                raise ConfigError(f"table {self.name} needs a column {name!r} without nulls")
        if self.schema.field(self.time).type != TIME_TYPE:
            raise ConfigError(f"column {self.time!r} of table {self.name} must be {TIME_TYPE}")
        if self.key and self.time not in self.key:
            raise ConfigError(f"the key of table {self.name} must include {self.time!r}")

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
    end_ms: int = _TIME_US_MAX // 1000

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


@dataclass(frozen=True, slots=True)
class Batch:
    """The application transaction of a commit: a query's id, and its batches in ascending order."""

    query: str
    number: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that is written but not yet part of the table; its path is relative to the table."""

    path: str
    size_bytes: int
    rows: int
    first_us: int  # the smallest time of its rows, Unix microseconds
    last_us: int  # the largest


class LakeTable(Protocol):
    """A table that any number of processes read and write.

    ``writer``: writes files; it may be sent to another process, if that reaches the table.
    ``commit``: the rows of these files become visible; False, and nothing changes, if this query
    has committed this batch or a later one. Without files nothing is recorded.
    ``merge``: the same for rows that replace those of the same key.
    ``read``: a snapshot of the rows of a span; ``files``: URIs of Parquet files that contain them,
    and possibly others, for engines that read files; they exist until a later ``vacuum``.
    ``compact``: rewrites small files, which changes no row; returns the number of files replaced.
    ``expire``: removes rows of whole hours before a time; returns their number.
    ``vacuum``: deletes files that neither the table nor a reader of the last ``unused_hours``
    needs, and files never committed; returns their number.

    Raises: BadRequest: rows do not fit; StoreUnavailable: not done, another writer was first or the
    store is down; OutcomeUnknown: committed or not: repeat the same batch.
    """

    def writer(self) -> "FileWriter": ...
    def commit(self, batch: Batch, files: Sequence[DataFile]) -> bool: ...
    def merge(self, batch: Batch, rows: pa.Table) -> bool: ...
    def read(self, span: Span = ALL) -> pa.Table: ...
    def files(self, span: Span = ALL) -> list[str]: ...
    def compact(self) -> int: ...
    def expire(self, before_ms: int) -> int: ...
    def vacuum(self, unused_hours: int = UNUSED_HOURS) -> int: ...


def whole_hour(time_ms: int) -> int:
    """The end of the last hour that ended at or before this time, Unix ms."""
    return time_ms - time_ms % HOUR_MS

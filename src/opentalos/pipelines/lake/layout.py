"""Values of the lake's tables: their columns, spans of time, batches and files."""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from opentalos.model.errors import BadRequest, ConfigError
from opentalos.pipelines.lake.tables import HOUR_MS

TIME_TYPE: Final = pa.timestamp("us", "UTC")
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


def whole_hour(time_ms: int) -> int:
    """The end of the last hour that ended at or before this time, Unix ms."""
    return time_ms - time_ms % HOUR_MS

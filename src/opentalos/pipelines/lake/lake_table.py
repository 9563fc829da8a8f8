"""The port of a table in the lake: rows by time, committed in batches, each batch once.

A writer has two steps, so that rows need not pass through the driver: ``writer()`` writes files
where the rows are, and ``commit`` makes them rows of the table. Files that were never committed,
because a task or the driver was killed, are invisible, and ``vacuum`` removes them.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.dataset as ds

from opentalos.pipelines.lake.file_writer import FileWriter
from opentalos.pipelines.lake.layout import (
    ALL,
    TARGET_BYTES,
    Batch,
    DataFile,
    Seen,
    Span,
    TableSummary,
)

UNUSED_HOURS: Final = 168  # longer than any query or task that may still use a file


class LakeUpkeep(Protocol):
    """What an operator does with a table, while others write and read it.

    ``summary``: its size, from metadata alone.
    ``compact``: rewrites files smaller than ``target_bytes``, which changes no row; returns the
    number of files replaced.
    ``expire``: removes rows of whole hours before a time; returns their number.
    ``vacuum``: deletes files that neither the table nor a reader of the last ``unused_hours``
    needs, and files never committed; returns their number.
    ``dry_run``: only count.

    Raises: StoreUnavailable: not done, another writer was first or the store is down;
    OutcomeUnknown: done or not; both may be repeated.
    """

    def summary(self) -> TableSummary: ...
    def compact(self, target_bytes: int = TARGET_BYTES) -> int: ...
    def expire(self, before_ms: int, *, dry_run: bool = False) -> int: ...
    def vacuum(self, unused_hours: int = UNUSED_HOURS, *, dry_run: bool = False) -> int: ...


class LakeTable(LakeUpkeep, Protocol):
    """A table that any number of processes read and write.

    ``writer``: writes files; it may be sent to another process, if that reaches the table.
    ``commit``: the rows of these files become visible; False, and nothing changes, if this query
    has committed this batch or a later one. Without files nothing is recorded.
    ``merge``: the same for rows that replace those of the same key.
    ``replace``: the same for rows that replace all rows of the files seen, for a merge that is made
    where the rows are. StoreUnavailable if other files have rows of these spans by now. Spans are
    whole hours; the table is not partitioned.
    ``read``: a snapshot of the rows of a span; ``files``: URIs of Parquet files that contain those
    of spans, and possibly others, for engines that read files; they exist until a later ``vacuum``.
    ``scan``: the same as a data set, which is read piece by piece. Files of a partitioned table
    lack the partition columns, which are folders NAME=VALUE in their paths.

    Raises: BadRequest: rows do not fit; LeaseNotHeld: not done, a run of the query with a higher
    epoch has written; StoreUnavailable: not done, another writer was first or the store is down;
    OutcomeUnknown: committed or not: repeat the same batch.
    """

    def writer(self) -> FileWriter: ...
    def commit(self, batch: Batch, files: Sequence[DataFile]) -> bool: ...
    def merge(self, batch: Batch, rows: pa.Table) -> bool: ...
    def replace(self, batch: Batch, seen: Seen, files: Sequence[DataFile]) -> bool: ...
    def read(self, span: Span = ALL) -> pa.Table: ...
    def files(self, *spans: Span) -> list[str]: ...  # without a span: all
    def scan(self, *spans: Span) -> ds.Dataset: ...

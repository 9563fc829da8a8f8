"""The lake table of one machine: ``HourTable`` with batches that are recorded in its files.

An hour's file names the last batch of each query in its metadata, so its rows and the record of
their batch change together, by one rename. A batch of several hours becomes visible hour by hour;
when it is repeated after a crash, hours that have it are skipped. Writers take turns by a lock.
The epochs of leases are in a file of the table, which is compared while the lock is held.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from opentalos.model.errors import (
    BadRequest,
    ConfigError,
    NotFound,
    StoreUnavailable,
)
from opentalos.pipelines.lake.file_writer import FileWriter, LocalFileWriter, dataset_of
from opentalos.pipelines.lake.folder_writers import QUERIES_MAX, fence, writing
from opentalos.pipelines.lake.lake_table import UNUSED_HOURS
from opentalos.pipelines.lake.layout import (
    ALL,
    TARGET_BYTES,
    TIME_PROPERTY,
    TIME_TYPE,
    Batch,
    DataFile,
    Layout,
    Seen,
    Span,
    TableSummary,
    time_column,
)
from opentalos.pipelines.lake.tables import HOUR_MS, HourTable, hour_of

HOUR_S: Final = 3600
_STAGED: Final = ".staged"
_MARK: Final = "opentalos.batch."  # prefix of a query's id in a file's metadata
_US_PER_MS: Final = 1000


class ParquetTable:
    """A ``LakeTable`` below a local folder: a Parquet file per hour, each always compact.

    Raises: ConfigError: the table is partitioned, but its files are those of hours.
    """

    def __init__(self, folder: Path, layout: Layout) -> None:
        if layout.partition_by:
            raise ConfigError(
                f"table {layout.name} is partitioned by {', '.join(layout.partition_by)}, and "
                f"{folder} would have a file per hour; use a URL such as delta+file://{folder}"
            )
        self._layout, self._folder = layout, folder
        self._hours = HourTable(folder, layout.name, layout.schema, folder=folder)

    def writer(self) -> FileWriter:
        """See LakeTable."""
        return LocalFileWriter(self._layout, str(self._folder / _STAGED))

    def commit(self, batch: Batch, files: Sequence[DataFile]) -> bool:
        """See LakeTable."""
        paths = [self._folder / _STAGED / file.path for file in files]
        if not paths:
            return False
        with self._writing():
            self._fence(batch)
            rows = self._layout.rows(pa.concat_tables(pq.read_table(path) for path in paths))
            stored = self._store(batch, rows, self._appended)
            for path in paths:
                path.unlink()
        return stored

    def merge(self, batch: Batch, rows: pa.Table) -> bool:
        """See LakeTable."""
        fresh = self._layout.merged(rows)
        if not fresh.num_rows:
            return False
        with self._writing():
            self._fence(batch)
            return self._store(batch, fresh, self._merged)

    def replace(self, batch: Batch, seen: Seen, files: Sequence[DataFile]) -> bool:
        """See LakeTable. One hour after the other is in memory."""
        by_span = {span: [file for file in files if file.within(span)] for span in seen.spans}
        if sum(map(len, by_span.values())) < len(files):
            raise BadRequest(
                f"rows do not fit table {self._layout.name}: a file has rows of other hours than "
                "those that it replaces"
            )
        stored = False
        with self._writing():
            self._fence(batch)
            if tuple(self.files(*seen.spans)) != seen.files:
                raise StoreUnavailable(
                    f"could not write table {self._layout.name}: another writer changed it; repeat "
                    "the batch"
                )
            for found in filter(None, by_span.values()):
                paths = [self._folder / _STAGED / file.path for file in found]
                rows = self._layout.rows(pa.concat_tables(pq.read_table(path) for path in paths))
                rows = rows.sort_by([(name, "ascending") for name in self._order])
                stored |= self._store(batch, rows, lambda _, new: new)
                for path in paths:
                    path.unlink()
        return stored

    @property
    def _order(self) -> tuple[str, ...]:
        return self._layout.key or (self._layout.time,)

    def read(self, span: Span = ALL) -> pa.Table:
        """See LakeTable."""
        found = [pq.ParquetFile(path).read() for path in self._paths([span])]
        if not found:
            return self._layout.schema.empty_table()
        rows = self._layout.rows(pa.concat_tables(found))
        return rows.filter(_inside(rows.column(self._layout.time), span))

    def files(self, *spans: Span) -> list[str]:
        """See LakeTable."""
        return [path.absolute().as_uri() for path in self._paths(spans or [ALL])]

    def scan(self, *spans: Span) -> ds.Dataset:
        """See LakeTable."""
        paths = [str(path) for path in self._paths(spans or [ALL])]
        return dataset_of(paths, pa_fs.LocalFileSystem(), self._layout.schema)

    def summary(self) -> TableSummary:
        """See LakeTable."""
        footers = [(pq.read_metadata(path), path.stat().st_size) for path in self._paths([ALL])]
        rows = sum(footer.num_rows for footer, _ in footers)
        bounds = [found for footer, _ in footers for found in self._bounds(footer)]
        ends = (min(bounds), max(bounds)) if bounds else (None, None)
        return TableSummary(None, len(footers), rows, sum(size for _, size in footers), *ends)

    def compact(self, target_bytes: int = TARGET_BYTES) -> int:
        """See LakeTable: every commit rewrites an hour as one file, so there is nothing to do."""
        return 0

    def expire(self, before_ms: int, *, dry_run: bool = False) -> int:
        """See LakeTable."""
        removed = 0
        with self._writing():
            for hour in self._hours.hours():
                if hour < hour_of(before_ms):
                    (path,) = self._hours.files([hour])
                    removed += pq.read_metadata(path).num_rows
                    if not dry_run:
                        self._hours.remove(hour)
        return removed

    def vacuum(self, unused_hours: int = UNUSED_HOURS, *, dry_run: bool = False) -> int:
        """See LakeTable."""
        with self._writing() as lock:
            os.utime(lock)  # staged files got their times from the same clock, that of the disk
            oldest = os.fstat(lock).st_mtime - unused_hours * HOUR_S
            staged = (self._folder / _STAGED).glob("data/*")
            abandoned = [path for path in staged if path.stat().st_mtime <= oldest]
            for path in [] if dry_run else abandoned:
                path.unlink(missing_ok=True)
            return len(abandoned) + self._hours.sweep(unused_hours * HOUR_S, dry_run=dry_run)

    def _bounds(self, footer: pq.FileMetaData) -> Iterator[int]:
        """The least and largest time of each row group, Unix microseconds."""
        place = self._layout.schema.get_field_index(self._layout.time)
        for number in range(footer.num_row_groups):
            statistics = footer.row_group(number).column(place).statistics
            if statistics is not None and statistics.has_min_max:
                yield statistics.min_raw
                yield statistics.max_raw

    def _fence(self, batch: Batch) -> None:
        """The writers' lock is held. Raises: LeaseNotHeld; ConfigError: see ``fence``."""
        what = f"batch {batch.number} to table {self._layout.name}"
        fence(self._folder, what, batch.query, batch.epoch)

    def _store(
        self, batch: Batch, rows: pa.Table, combined: Callable[[int, pa.Table], pa.Table]
    ) -> bool:
        stored = False
        for hour, fresh in self._by_hour(rows):
            marks = self._hours.marks(hour)
            mark = _MARK + batch.query
            if int(marks.get(mark, -1)) >= batch.number:
                continue
            ours = {mark, TIME_PROPERTY}
            kept = {name: text for name, text in marks.items() if name not in ours}
            kept = dict(list(kept.items())[1 - QUERIES_MAX :])
            whole = combined(hour, fresh)
            written = {TIME_PROPERTY: self._layout.time, mark: str(batch.number)}
            self._hours.replace(hour, whole, {**kept, **written})
            stored = True
        return stored

    def _appended(self, hour: int, fresh: pa.Table) -> pa.Table:
        return pa.concat_tables([self._hours.load(hour), fresh])

    def _merged(self, hour: int, fresh: pa.Table) -> pa.Table:
        stored = self._hours.load(hour)
        key = list(self._layout.key)
        places = pa.array(range(stored.num_rows), pa.int64())
        numbered = stored.select(key).append_column("_place", places)
        kept = numbered.join(fresh.select(key), key, join_type="left anti").column("_place")
        return pa.concat_tables([stored.take(kept.combine_chunks().sort()), fresh])

    def _by_hour(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        time_ms = pc.divide(rows.column(self._layout.time).cast(pa.int64()), _US_PER_MS)
        hours = pc.multiply(pc.divide(time_ms, HOUR_MS), HOUR_MS)
        if pc.min(hours).as_py() < 0:
            raise BadRequest(f"rows for table {self._layout.name} have a time before 1970")
        for hour in sorted(pc.unique(hours).to_pylist()):
            yield hour, rows.filter(pc.equal(hours, hour))

    def _paths(self, spans: Sequence[Span]) -> list[Path]:
        bounds = [(hour_of(span.start_ms), span.end_ms) for span in spans]
        return self._hours.files(
            hour
            for hour in self._hours.hours()
            if any(first <= hour < end_ms for first, end_ms in bounds)
        )

    def _writing(self) -> AbstractContextManager[int]:
        """The lock of writers; its descriptor. Raises: see ``writing``."""
        return writing(self._folder, f"table {self._layout.name}")


def parquet_layout(folder: Path, time_name: str | None = None) -> Layout:
    """The layout of an existing table, without its key, which a table does not record.

    Args:   time_name: its column of time, if the table does not record it.
    Raises: ConfigError: the column is not known; NotFound: it is not a folder of such a table.
    """
    file = HourTable(folder, folder.name, folder=folder).any_file()
    schema = pa.schema([]) if file is None else pq.read_schema(file)
    marks = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    if not any(name.startswith(_MARK) for name in marks):
        raise NotFound(
            f"could not open the table at {folder}: it has no file that a batch wrote; give the "
            "folder or URL of a lake table (tables of pipelines below --home are not)"
        )
    schema = schema.remove_metadata()
    recorded = time_name or marks.get(TIME_PROPERTY)
    return Layout(folder.name, schema, time_column(folder.name, schema, recorded))


def _inside(time: pa.ChunkedArray, span: Span) -> pa.ChunkedArray:
    begin, end = span.start.cast(TIME_TYPE), span.end.cast(TIME_TYPE)
    return pc.and_(pc.greater_equal(time, begin), pc.less(time, end))

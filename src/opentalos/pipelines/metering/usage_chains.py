"""The chain of minutes of each partition in the table "usage", summed by DuckDB in bounded memory.

Used by ``billing.reconcile``, which decides on what is returned here and compares it with the logs.

Theory of operation. The table is read once, in slices. Rows that follow each other without a
fault, in time and in offsets, are a run, and only runs are kept: files are sorted, so there is
about one run for each partition of a slice. A run is a chain by itself, so gaps are between runs.
Where runs of a partition overlap in time or in offsets, its rows are read again, one by one.
Rows that a log may still have are copied to the temporary disk, in buckets by partition, since
the logs are read later than the table and compared minute by minute.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import ALL
from opentalos.pipelines.metering.chain_bucket import BUCKETS, HELD, Bucket
from opentalos.pipelines.metering.usage_lake import SpillingEngine, read_rows, wanted_rows

_SLICE_ROWS: Final = 250_000
_MEMORY: Final = "256MB"  # of DuckDB, which is beside a slice in Arrow
_SORT_BELOW: Final = 4  # rows per run; a slice with fewer is sorted first
_NAMED_TOPICS_MAX: Final = 1_000  # in a filter; with more, the whole table is read again
_COLUMNS: Final = ("topic", "partition", "name", "minute",
                   "records", "bytes", "first_offset", "next_offset")  # fmt: skip
_MATCHES: Final = "next_offset::HUGEINT - first_offset = records"
_TABLES: Final = """
    CREATE TABLE floors (topic VARCHAR, partition INTEGER, start_ms BIGINT, start_offset BIGINT);
    CREATE TABLE places (place INTEGER, topic VARCHAR, partition INTEGER, name VARCHAR);
    CREATE TABLE runs (place INTEGER, minute_ms BIGINT, last_ms BIGINT, first_offset BIGINT,
        next_offset BIGINT, records HUGEINT, bytes HUGEINT);
    CREATE TABLE breaks (place INTEGER, minute_ms BIGINT, records HUGEINT, bytes HUGEINT,
        first_offset BIGINT, next_offset BIGINT, reached BIGINT);
    CREATE TABLE logged (place INTEGER, minute_ms BIGINT, records BIGINT, bytes BIGINT,
        first_offset BIGINT, next_offset BIGINT, number BIGINT)"""
_SORTED: Final = """
    CREATE OR REPLACE TABLE sorted AS
    SELECT * FROM slice ORDER BY topic, partition, minute, first_offset"""
# The window functions without an order are those of the order in which the rows come.
_NUMBERED: Final = f"""(
    SELECT *, sum((NOT linked)::INTEGER) OVER (ROWS UNBOUNDED PRECEDING) AS run
    FROM (
        SELECT *, minute // 1000 AS minute_ms,
            coalesce(sound AND lag(sound) OVER () AND lag(topic) OVER () = topic
                AND lag(partition) OVER () = partition AND lag(minute) OVER () < minute
                AND lag(next_offset) OVER () = first_offset, false) AS linked
        FROM (SELECT *, first_offset <= next_offset AND {_MATCHES} AS sound FROM {{source}})
    )
)"""
_FOUND: Final = f"""
    CREATE OR REPLACE TABLE found AS
    SELECT run, first(topic) AS topic, first(partition) AS partition, first(name) AS name,
        min(minute_ms) AS minute_ms, max(minute_ms) AS last_ms, min(first_offset) AS first_offset,
        max(next_offset) AS next_offset, sum(records) AS records, sum(bytes) AS bytes
    FROM {_NUMBERED} GROUP BY run"""
_PLACED: Final = """
    INSERT INTO places
    SELECT (SELECT count(*) FROM places) + row_number() OVER () - 1, topic, partition, name
    FROM (
        SELECT topic, partition, arg_min(name, run) AS name
        FROM found ANTI JOIN places USING (topic, partition) GROUP BY topic, partition
    )"""
_KEPT_RUNS: Final = """
    INSERT INTO runs
    SELECT place, minute_ms, last_ms, first_offset, next_offset, records, bytes
    FROM found JOIN places USING (topic, partition)"""
# A log only ever loses messages at its begin, so what it had not before it will not have.
_WANTED: Final = """
    CREATE OR REPLACE TABLE wanted AS
    SELECT run, place FROM found JOIN places USING (topic, partition)
        JOIN floors USING (topic, partition)
    WHERE next_offset > start_offset OR last_ms >= start_ms"""
_HELD: Final = f"""
    SELECT place, minute_ms, records, bytes, first_offset, next_offset,
        place % {BUCKETS} AS bucket
    FROM {_NUMBERED} JOIN wanted USING (run)
    ORDER BY bucket"""
_LINKED: Final = """
    CREATE TABLE linked AS
    SELECT *, greatest(coalesce(max(next_offset) OVER before, 0), 0) AS reached,
        max(last_ms) OVER before AS reached_ms
    FROM runs
    WINDOW before AS (PARTITION BY place ORDER BY minute_ms
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"""
_SUMS: Final = """
    CREATE TABLE sums AS
    SELECT place, sum(records) AS records, sum(bytes) AS bytes,
        greatest(max(next_offset), 0) AS next_offset,
        bool_or(first_offset < reached OR coalesce(minute_ms <= reached_ms, false)) AS tangled
    FROM linked GROUP BY place"""
_BREAKS: Final = f"""
    INSERT INTO breaks
    SELECT place, minute_ms, records, bytes, first_offset, next_offset, reached
    FROM linked SEMI JOIN (SELECT place FROM sums WHERE NOT tangled) USING (place)
    WHERE first_offset <> reached OR NOT {_MATCHES}"""
_TANGLED_ROWS: Final = """
    CREATE TABLE tangled AS
    SELECT place, minute // 1000 AS minute_ms, records, bytes, first_offset, next_offset
    FROM stored JOIN places USING (topic, partition)
        SEMI JOIN (SELECT place FROM sums WHERE tangled) USING (place)"""
_TANGLED_BREAKS: Final = f"""
    INSERT INTO breaks
    SELECT * FROM (
        SELECT *, greatest(coalesce(max(next_offset) OVER (
            PARTITION BY place ORDER BY minute_ms, first_offset, next_offset, records, bytes
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0), 0) AS reached
        FROM tangled
    )
    WHERE first_offset <> reached OR NOT {_MATCHES}"""


class Floor(NamedTuple):
    """Where a log begins; ``start_ms``: its first minute, None if it has no message."""

    start_ms: int | None
    start_offset: int


class UsageChains(SpillingEngine):
    """All chains of a snapshot of the table, in buckets of partitions.

    Args: topics: as for ``UsageLake``; floors: of the logs that will be compared, by topic uuid
          and partition, read before this is made.
    """

    def __init__(
        self,
        table: LakeTable,
        *,
        topics: Sequence[str] = (),
        floors: Mapping[tuple[str, int], Floor],
    ) -> None:
        self._stored, self._wanted = table.scan(ALL), wanted_rows(ALL, None, topics)
        super().__init__(_MEMORY)
        self._tangled = False
        try:
            self._engine.execute(_TABLES)
            self._set_floors(floors)
        except BaseException:
            self.close()
            raise

    def buckets(self) -> "Iterator[Bucket]":
        """Every partition in one of them. The first one comes when the whole table is read."""
        with ExitStack() as opened:
            copies = _Copies(Path(self._spill.name), opened)
            for rows in _slices(self._read()):
                self._take(rows, copies)
        self._link()
        for number in range(min(BUCKETS, self._count("SELECT count(*) FROM places"))):
            path = copies.path(number)
            yield Bucket(self._engine, number, path, tangled=self._tangled)
            path.unlink(missing_ok=True)

    def _read(self, topics: Sequence[str] = ()) -> pa.RecordBatchReader:
        wanted = self._wanted
        if topics:
            wanted &= wanted_rows(ALL, None, topics)
        return _with_counts(read_rows(self._stored, _COLUMNS, wanted))

    def _set_floors(self, floors: Mapping[tuple[str, int], Floor]) -> None:
        columns = {
            "topic": pa.array([topic for topic, _ in floors], pa.string()),
            "partition": pa.array([partition for _, partition in floors], pa.int32()),
            "start_ms": pa.array([floor.start_ms for floor in floors.values()], pa.int64()),
            "start_offset": pa.array([floor.start_offset for floor in floors.values()], pa.int64()),
        }
        self._engine.register("slice", pa.table(columns))
        self._engine.execute("INSERT INTO floors SELECT * FROM slice")

    def _take(self, rows: pa.Table, copies: "_Copies") -> None:
        """Add the runs of a slice, and copy the rows that logs may have."""
        self._engine.register("slice", rows)
        source = "slice"
        if self._runs(source) * _SORT_BELOW > rows.num_rows:
            source = "sorted"
            self._engine.execute(_SORTED)
            self._runs(source)
        for statement in (_PLACED, _KEPT_RUNS, _WANTED):
            self._engine.execute(statement)
        if not self._count("SELECT count(*) FROM wanted"):
            return
        held = self._engine.sql(_HELD.format(source=source)).to_arrow_table()
        buckets, start = held.column("bucket").to_numpy(), 0
        held = held.drop_columns("bucket").cast(HELD).combine_chunks()
        for number, end in enumerate(np.searchsorted(buckets, range(BUCKETS), side="right")):
            if start < end:
                copies.add(number, held.slice(start, end - start))
            start = end

    def _runs(self, source: str) -> int:
        """Find the runs of the slice; their number."""
        self._engine.execute(_FOUND.format(source=source))
        return self._count("SELECT count(*) FROM found")

    def _count(self, query: str) -> int:
        (row,) = self._engine.execute(query).fetchall()
        return int(row[0])

    def _link(self) -> None:
        """Make chains of the runs."""
        for statement in (_LINKED, "DROP TABLE runs", _SUMS, _BREAKS, "DROP TABLE linked"):
            self._engine.execute(statement)
        topics = self._engine.execute(
            "SELECT DISTINCT topic FROM places JOIN sums USING (place) WHERE tangled"
        ).fetchall()
        if topics:
            self._tangled = True
            named = [topic for (topic,) in topics] if len(topics) <= _NAMED_TOPICS_MAX else []
            self._engine.register("stored", self._read(named))
            for statement in (_TANGLED_ROWS, _TANGLED_BREAKS, "DROP TABLE tangled"):
                self._engine.execute(statement)


class _Copies:
    """Rows of ``HELD``, in a file for each bucket that has any. ``opened``: closes the files."""

    # A stream has no footer, so nothing of what is written is held.
    _OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="zstd")

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self._folder, self._opened = folder, opened
        self._writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}

    def path(self, number: int) -> Path:
        """The file of a bucket; it may not exist."""
        return self._folder / f"bucket-{number}.arrow"

    def add(self, number: int, rows: pa.Table) -> None:
        """Append rows to a bucket."""
        if number not in self._writers:
            stream = pa.ipc.new_stream(str(self.path(number)), HELD, options=self._OPTIONS)
            self._writers[number] = self._opened.enter_context(stream)
        self._writers[number].write_table(rows)


def _with_counts(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """With the minute as a number, Unix microseconds, for which DuckDB needs no time zone."""
    place = rows.schema.get_field_index("minute")
    schema = rows.schema.set(place, pa.field("minute", pa.int64()))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            minutes = batch.column(place).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
            yield batch.set_column(place, schema.field(place), minutes)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _slices(rows: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """All rows, in their order, in tables of about ``_SLICE_ROWS``."""
    batches: list[pa.RecordBatch] = []
    for batch in rows:
        batches.append(batch)
        if sum(part.num_rows for part in batches) >= _SLICE_ROWS:
            yield pa.Table.from_batches(batches)
            batches = []
    if batches:
        yield pa.Table.from_batches(batches)

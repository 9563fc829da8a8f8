"""The table "usage" for the command line and for reconciliation: read by DuckDB, without Spark."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import reduce
from operator import and_
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, NamedTuple, Self

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import ALL, Span, inside
from opentalos.pipelines.metering.usage_table import LAYOUT, SCHEMA

_MEMORY: Final = "512MB"  # DuckDB spills the rest to disk
_THREADS: Final = 2  # each has buffers of its own
_ROWS_PER_BATCH: Final = 50_000
_SETTINGS: Final[dict[str, str | int | float | list[str]]] = {
    "memory_limit": _MEMORY,
    "threads": _THREADS,
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_BUCKETS: Final = 64  # of 16 million rows, if the table has a billion
_ROWS_AT_ONCE: Final = 250_000  # of a copy
_US_PER_MS: Final = 1000
_PLACE: Final = ("topic", "partition", "name")
_MINUTE: Final = ("minute", "records", "bytes", "first_offset", "next_offset")


class MinuteUse(NamedTuple):
    """The records stored in one partition during one minute."""

    minute_ms: int
    records: int
    bytes: int
    first_offset: int
    next_offset: int


class Chain(NamedTuple):
    """All minutes of a partition in the table, by time."""

    topic: str
    partition: int
    name: str
    minutes: list[MinuteUse]


class UsageLake:
    """A snapshot of the table at the time of opening, or of a part of it.

    The files are those of that time. Only files that may have rows of ``span`` are opened, and only
    the columns that a call needs are read; what memory does not hold is on a temporary disk.

    Args:   span: of minutes; tenant: its rows only; topics: rows of topics of these names or uuids,
            ``OWNER/NAME`` included, and possibly of others of the same name; empty: of all.
    """

    def __init__(
        self,
        table: LakeTable,
        span: Span = ALL,
        *,
        tenant: str | None = None,
        topics: Sequence[str] = (),
    ) -> None:
        self._spill = TemporaryDirectory(prefix="talos-usage-")
        settings = {**_SETTINGS, "temp_directory": self._spill.name}
        self._engine = duckdb.connect(":memory:", config=settings)
        try:
            self._stored, self._wanted = table.scan(span), _condition(span, tenant, topics)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the snapshot."""
        self._engine.close()
        self._spill.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def chains(self) -> Iterator[Chain]:
        """Every partition once, in no particular order.

        The rows are first copied into buckets by a hash of their partition, in files on the
        temporary disk, and then sorted bucket by bucket. So memory does not grow with the table,
        and what ends late is not disturbed by files that are removed meanwhile.
        """
        for bucket in self._buckets():
            yield from self._chains_of(bucket)
            bucket.unlink()

    def rows(self) -> Iterator[pa.Table]:
        """Raw rows in a fixed order, in batches."""
        self._engine.register("stored", _read(self._stored, SCHEMA.names, self._wanted))
        found = self._engine.sql("SELECT * FROM stored ORDER BY tenant, topic, partition, minute")
        for batch in found.to_arrow_reader(_ROWS_PER_BATCH):
            yield pa.Table.from_batches([batch])

    def _buckets(self) -> list[Path]:
        """Copy the rows into a file for each bucket."""
        self._engine.register("stored", _read(self._stored, [*_PLACE, *_MINUTE], self._wanted))
        rows = self._engine.sql(
            f"SELECT *, (hash(topic, partition) % {_BUCKETS})::INTEGER AS bucket FROM stored"
        ).to_arrow_reader(_ROWS_AT_ONCE)
        paths = [Path(self._spill.name) / f"bucket-{number}.arrow" for number in range(_BUCKETS)]
        # A stream has no footer, so nothing of what is written is held.
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with ExitStack() as opened:
            writers = [
                opened.enter_context(pa.ipc.new_stream(str(path), rows.schema, options=options))
                for path in paths
            ]
            for batch in rows:
                for part in _runs(batch.sort_by("bucket"), ["bucket"]):
                    writers[part.column("bucket")[0].as_py()].write_batch(part)
        return paths

    def _chains_of(self, bucket: Path) -> Iterator[Chain]:
        chain: Chain | None = None
        with pa.OSFile(str(bucket)) as file:
            self._engine.register("bucket", pa.ipc.open_stream(file))
            found = self._engine.sql("SELECT * FROM bucket ORDER BY topic, partition, minute")
            for batch in found.to_arrow_reader(_ROWS_PER_BATCH):
                for part in _runs(batch, ["topic", "partition"]):
                    topic, partition, name = (part.column(each)[0].as_py() for each in _PLACE)
                    if chain is None or (chain.topic, chain.partition) != (topic, partition):
                        if chain is not None:
                            yield chain
                        chain = Chain(topic, partition, name, [])
                    chain.minutes.extend(_minutes(part))
        if chain is not None:
            yield chain


def _runs(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows that are alike in these columns; they are beside each other."""
    ends = {
        end for name in names for end in pc.run_end_encode(batch.column(name)).run_ends.to_pylist()
    }
    start = 0
    for end in sorted(ends):
        yield batch.slice(start, end - start)
        start = end


def _minutes(rows: pa.RecordBatch) -> Iterator[MinuteUse]:
    columns = [rows.column(name) for name in _MINUTE]
    columns[0] = pc.divide(columns[0].cast(pa.int64()), _US_PER_MS)
    return map(MinuteUse, *(column.to_pylist() for column in columns))


def next_offsets(table: LakeTable, topics: Sequence[str] = ()) -> dict[tuple[str, int], int]:
    """The next offset of each partition in the table, by topic uuid and partition.

    Args: topics: as for ``UsageLake``.
    """
    columns = ["topic", "partition", "next_offset"]
    with duckdb.connect(":memory:", config=_SETTINGS) as engine:
        engine.register("stored", _read(table.scan(), columns, _condition(ALL, None, topics)))
        found = engine.execute(
            "SELECT topic, partition, max(next_offset) FROM stored GROUP BY topic, partition"
        ).fetchall()
    return {(row[0], row[1]): row[2] for row in found}


def _read(
    stored: ds.Dataset, columns: Sequence[str], wanted: pc.Expression
) -> pa.RecordBatchReader:
    """The rows, once. With threads pyarrow decodes far more than a slow reader has taken."""
    scan = stored.scanner(
        columns=list(columns), filter=wanted, batch_size=_ROWS_PER_BATCH, use_threads=False
    )
    return scan.to_reader()


def _condition(span: Span, tenant: str | None, topics: Sequence[str]) -> pc.Expression:
    """Of the rows that are wanted."""
    conditions = [inside(LAYOUT.time, span)]
    if tenant is not None:
        conditions.append(pc.field("tenant") == tenant)
    if topics:
        names = [topic.rpartition("/")[2] for topic in topics]
        conditions.append(pc.field("topic").isin(list(topics)) | pc.field("name").isin(names))
    return reduce(and_, conditions)

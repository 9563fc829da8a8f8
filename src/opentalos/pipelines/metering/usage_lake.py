"""The table "usage" for the command line and for reconciliation: read by DuckDB, without Spark."""

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_
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


class MinuteUse(NamedTuple):
    """The records stored in one partition during one minute."""

    minute_ms: int
    records: int
    bytes: int
    first_offset: int
    next_offset: int


class SpillingEngine:
    """DuckDB with a temporary disk, both of which are gone when it is left."""

    def __init__(self, memory: str) -> None:
        self._spill = TemporaryDirectory(prefix="talos-usage-")
        settings = {**_SETTINGS, "memory_limit": memory, "temp_directory": self._spill.name}
        self._engine = duckdb.connect(":memory:", config=settings)

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


class UsageLake(SpillingEngine):
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
        super().__init__(_MEMORY)
        try:
            self._stored, self._wanted = table.scan(span), wanted_rows(span, tenant, topics)
        except BaseException:
            self.close()
            raise

    def rows(self) -> Iterator[pa.Table]:
        """Raw rows in a fixed order, in batches."""
        self._engine.register("stored", read_rows(self._stored, SCHEMA.names, self._wanted))
        found = self._engine.sql("SELECT * FROM stored ORDER BY tenant, topic, partition, minute")
        for batch in found.to_arrow_reader(_ROWS_PER_BATCH):
            yield pa.Table.from_batches([batch])


def next_offsets(table: LakeTable, topics: Sequence[str] = ()) -> dict[tuple[str, int], int]:
    """The next offset of each partition in the table, by topic uuid and partition.

    Args: topics: as for ``UsageLake``.
    """
    columns = ["topic", "partition", "next_offset"]
    with duckdb.connect(":memory:", config=_SETTINGS) as engine:
        engine.register("stored", read_rows(table.scan(), columns, wanted_rows(ALL, None, topics)))
        found = engine.execute(
            "SELECT topic, partition, max(next_offset) FROM stored GROUP BY topic, partition"
        ).fetchall()
    return {(row[0], row[1]): row[2] for row in found}


def read_rows(
    stored: ds.Dataset, columns: Sequence[str], wanted: pc.Expression
) -> pa.RecordBatchReader:
    """These columns, once. With threads pyarrow decodes far more than a slow reader has taken."""
    scan = stored.scanner(
        columns=list(columns), filter=wanted, batch_size=_ROWS_PER_BATCH, use_threads=False
    )
    return scan.to_reader()


def wanted_rows(span: Span, tenant: str | None, topics: Sequence[str]) -> pc.Expression:
    """The condition of ``UsageLake`` that rows meet."""
    conditions = [inside(LAYOUT.time, span)]
    if tenant is not None:
        conditions.append(pc.field("tenant") == tenant)
    if topics:
        names = [topic.rpartition("/")[2] for topic in topics]
        conditions.append(pc.field("topic").isin(list(topics)) | pc.field("name").isin(names))
    return reduce(and_, conditions)

"""The table "usage" for the command line and for reconciliation: read by DuckDB, without Spark."""

from collections.abc import Iterator, Sequence
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import duckdb
import pyarrow as pa

from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import ALL, Span
from opentalos.pipelines.metering.usage_table import SCHEMA

_MEMORY: Final = "2GB"  # DuckDB spills the rest to disk
_ROWS_PER_BATCH: Final = 50_000
_SETTINGS: Final[dict[str, str | int | float | list[str]]] = {
    "memory_limit": _MEMORY,
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_CHAIN: Final = (
    "topic",
    "partition",
    "minute",
    "records",
    "bytes",
    "first_offset",
    "next_offset",
)


class MinuteUse(NamedTuple):
    """The records stored in one partition during one minute."""

    minute_ms: int
    records: int
    bytes: int
    first_offset: int
    next_offset: int


class Metered(NamedTuple):
    """A partition that has rows in the table."""

    topic: str
    partition: int
    name: str
    tenant: str
    next_offset: int


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
        self._sorted = False
        settings = {**_SETTINGS, "temp_directory": self._spill.name}
        self._engine = duckdb.connect(":memory:", config=settings)
        try:
            self._engine.register("stored", table.scan(span))
            self._wanted, self._values = _condition(span, tenant, topics)
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

    def partitions(self) -> dict[tuple[str, int], Metered]:
        """All partitions, by topic uuid and number."""
        self._sort()  # ``minutes`` may follow long after the files were superseded
        found = self._engine.execute(
            "SELECT topic, partition, max(name), max(tenant), max(next_offset) FROM stored "
            f"WHERE {self._wanted} GROUP BY topic, partition ORDER BY topic, partition",
            self._values,
        ).fetchall()
        return {(row[0], row[1]): Metered(*row) for row in found}

    def minutes(self, topic: str, partition: int) -> list[MinuteUse]:
        """The rows of one partition, by minute."""
        self._sort()
        found = self._engine.execute(
            "SELECT epoch_ms(minute), records, bytes, first_offset, next_offset FROM usage "
            "WHERE topic = ? AND partition = ? ORDER BY minute",
            [topic, partition],
        ).fetchall()
        return [MinuteUse(*row) for row in found]

    def rows(self) -> Iterator[pa.Table]:
        """Raw rows in a fixed order, in batches."""
        text = (
            f"SELECT {', '.join(SCHEMA.names)} FROM stored WHERE {self._wanted} "
            "ORDER BY tenant, topic, partition, minute"
        )
        found = self._engine.sql(text, params=self._values)
        for batch in found.to_arrow_reader(_ROWS_PER_BATCH):
            yield pa.Table.from_batches([batch])

    def _sort(self) -> None:
        """Keep the rows of all partitions, once, so that each is found without a scan."""
        if self._sorted:
            return
        self._engine.execute(
            f"CREATE TEMP TABLE usage AS SELECT {', '.join(_CHAIN)} FROM stored "
            f"WHERE {self._wanted} ORDER BY topic, partition, minute",
            self._values,
        )
        self._sorted = True


def next_offsets(table: LakeTable, topics: Sequence[str] = ()) -> dict[tuple[str, int], int]:
    """The next offset of each partition in the table, by topic uuid and partition.

    Args: topics: as for ``UsageLake``.
    """
    wanted, values = _condition(ALL, None, topics)
    with duckdb.connect(":memory:", config=_SETTINGS) as engine:
        engine.register("stored", table.scan())
        found = engine.execute(
            f"SELECT topic, partition, max(next_offset) FROM stored WHERE {wanted} "
            "GROUP BY topic, partition",
            values,
        ).fetchall()
    return {(row[0], row[1]): row[2] for row in found}


def _condition(span: Span, tenant: str | None, topics: Sequence[str]) -> tuple[str, list[Any]]:
    """Of the rows that are wanted, with its values."""
    conditions, values = ["true"], list[Any]()
    if span.start_ms > ALL.start_ms:
        conditions.append("minute >= ?")
        values.append(span.start.as_py())
    if span.end_ms < ALL.end_ms:
        conditions.append("minute < ?")
        values.append(span.end.as_py())
    if tenant is not None:
        conditions.append("tenant = ?")
        values.append(tenant)
    if topics:
        conditions.append("(list_contains(?, topic) OR list_contains(?, name))")
        values += [list(topics), [topic.rpartition("/")[2] for topic in topics]]
    return " AND ".join(conditions), values

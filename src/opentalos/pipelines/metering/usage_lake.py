"""The table "usage" for the command line and for reconciliation: read by DuckDB, without Spark."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import duckdb
import pyarrow as pa

from opentalos.pipelines.lake.month import Month
from opentalos.pipelines.lake.tables import HourTable
from opentalos.pipelines.metering.usage_table import SCHEMA, TABLE

_MEMORY: Final = "2GB"  # DuckDB spills the rest to disk
_ROWS_PER_BATCH: Final = 50_000
_SETTINGS: Final[dict[str, str | int | float | list[str]]] = {
    "memory_limit": _MEMORY,
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


class Metered(NamedTuple):
    """A partition that has rows in the table."""

    topic: str
    partition: int
    name: str
    tenant: str
    next_offset: int


class UsageLake:
    """A snapshot of the table at the time of opening."""

    def __init__(self, home: Path) -> None:
        self._spill = TemporaryDirectory(prefix="talos-usage-")
        settings = {**_SETTINGS, "temp_directory": self._spill.name}
        self._engine = duckdb.connect(":memory:", config=settings)
        files = [str(path) for path in HourTable(home, TABLE, SCHEMA).files()]
        if files:
            rows = "SELECT * FROM read_parquet(?) ORDER BY topic, partition, minute"
            self._engine.execute(f"CREATE TEMP TABLE usage AS {rows}", [files])
        else:
            self._engine.register("none", SCHEMA.empty_table())
            self._engine.execute("CREATE TEMP TABLE usage AS SELECT * FROM none")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._engine.close()
        self._spill.cleanup()

    def partitions(self) -> dict[tuple[str, int], Metered]:
        """All partitions, by topic uuid and number."""
        found = self._engine.execute(
            "SELECT topic, partition, max(name), max(tenant), max(next_offset) FROM usage "
            "GROUP BY topic, partition ORDER BY topic, partition"
        ).fetchall()
        return {(row[0], row[1]): Metered(*row) for row in found}

    def minutes(self, topic: str, partition: int) -> list[MinuteUse]:
        """The rows of one partition, by minute."""
        found = self._engine.execute(
            "SELECT epoch_ms(minute), records, bytes, first_offset, next_offset FROM usage "
            "WHERE topic = ? AND partition = ? ORDER BY minute",
            [topic, partition],
        ).fetchall()
        return [MinuteUse(*row) for row in found]

    def rows(self, month: Month | None = None, tenant: str | None = None) -> Iterator[pa.Table]:
        """Raw rows in a fixed order, in batches."""
        conditions, values = ["true"], list[Any]()
        if month is not None:
            conditions.append("minute >= ? AND minute < ?")
            values += [month.begin, month.end]
        if tenant is not None:
            conditions.append("tenant = ?")
            values.append(tenant)
        text = (
            f"SELECT {', '.join(SCHEMA.names)} FROM usage WHERE {' AND '.join(conditions)} "
            "ORDER BY tenant, topic, partition, minute"
        )
        reader = self._engine.sql(text, params=values).to_arrow_reader(_ROWS_PER_BATCH)
        for batch in reader:
            yield pa.Table.from_batches([batch])


def next_offsets(home: Path) -> dict[tuple[str, int], int]:
    """The next offset of each partition in the table, by topic uuid and partition."""
    with UsageLake(home) as lake:
        return {key: partition.next_offset for key, partition in lake.partitions().items()}

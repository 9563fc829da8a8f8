"""The rollups of a batch into the OLAP store.

A store of files gets them from Spark's tasks: each writes files where it runs, and the driver
publishes the names that successful attempts have returned. So no rollup passes through the driver,
and files of attempts that failed or were repeated are never part of a table. Druid is sent rows
over HTTP, an hour at a time. The rollups of a small batch are in the driver already, which writes
or sends them.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from opentalos.pipelines.lake.sink import write_files
from opentalos.pipelines.monitoring.rollup_tables import (
    DIMENSIONS,
    LEVELS,
    METRICS,
    ORDER,
    sketch_table,
)
from opentalos.pipelines.monitoring.rollups import (
    hour_column,
    measures_by_level,
    rollup_rows,
    sketches_by_level,
)
from opentalos.pipelines.olap.file_store import FileStore
from opentalos.pipelines.olap.opening import when_up
from opentalos.pipelines.olap.store import OlapStore, Writer
from opentalos.pipelines.olap.table_set import HOUR, TABLE_NAME, hour_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_FILE: Final = 250_000  # of level 0, whose rollups one task writes into one file
_FINEST: Final = min(LEVELS, key=lambda name: LEVELS[name])


def publish_files(
    olap: FileStore, level_0: "DataFrame", hours: Sequence[int], writer: Writer
) -> None:
    """Replace the rollups of these hours, Unix ms.

    Args:   level_0: whole hours, and maybe others.
    Raises: RowsMissing: executors wrote to disks that this machine does not have; LeaseNotHeld;
            Unavailable: the store was down for too long.
    """
    inside = level_0.where(hour_column().isin(list(hours)))
    tasks = _repartitioned(olap, rollup_rows(inside), inside)
    sorted_tasks = tasks.sortWithinPartitions(HOUR, TABLE_NAME, *ORDER)
    files = when_up(METRICS.name, lambda: write_files(sorted_tasks, olap.writer(METRICS)))
    when_up(METRICS.name, partial(olap.publish, METRICS, hours, files, writer))


def publish_rows(olap: OlapStore, rollups: pa.Table, hours: Sequence[int], writer: Writer) -> None:
    """As ``publish_files`` or ``send_rows``, for rollups in memory, in the order of ``rollups_of``.

    Raises: as ``publish_files``.
    """
    if not isinstance(olap, FileStore):
        for hour_ms in hours:
            of_hour = rollups.filter(pc.equal(rollups.column(HOUR), hour_text(hour_ms)))
            names = of_hour.column(TABLE_NAME)
            tables = {
                name: of_hour.filter(pc.equal(names, name)).select(columns.names)
                for name, columns in METRICS.tables.items()
            }
            when_up(METRICS.name, partial(olap.replace, hour_ms, tables, writer))
        return
    rows = rollups.to_batches()
    files = when_up(METRICS.name, lambda: list(olap.writer(METRICS).write(rows)))
    when_up(METRICS.name, partial(olap.publish, METRICS, hours, files, writer))


def _repartitioned(olap: FileStore, rollups: "DataFrame", level_0: "DataFrame") -> "DataFrame":
    """Tasks of which each writes the files of some hours and tables."""
    if olap.files_of_hour_max == 1:
        return rollups.repartition(HOUR, TABLE_NAME)
    files_max = min(olap.files_of_hour_max, -(-_largest_hour(level_0) // ROWS_PER_FILE))
    # Rows of one key stay together. The coarser tables are smaller, so a task has them whole.
    finest = F.col(TABLE_NAME).isin(_FINEST, sketch_table(_FINEST))
    part = F.when(finest, F.pmod(F.hash(*DIMENSIONS), F.lit(files_max))).otherwise(0)
    return rollups.repartition(HOUR, TABLE_NAME, part)


def _largest_hour(level_0: "DataFrame") -> int:
    """The number of rows of the hour that has most of them; at least 1."""
    counts = level_0.groupBy(hour_column().alias("hour")).count()
    found = counts.agg(F.max("count")).first()
    return int(found[0] or 1) if found else 1


def send_rows(olap: OlapStore, level_0: "DataFrame", hours: Sequence[int], writer: Writer) -> None:
    """As ``publish_files``, for a store that takes rows; those of an hour are in the driver."""
    for hour_ms in hours:
        rows = level_0.where(hour_column() == hour_ms)
        measures, sketches = measures_by_level(rows).toArrow(), sketches_by_level(rows).toArrow()
        tables = {}
        for level in LEVELS:
            for name, found in ((level, measures), (sketch_table(level), sketches)):
                tables[name] = _sorted(found.filter(pc.equal(found.column("level"), level)))
        when_up(METRICS.name, partial(olap.replace, hour_ms, tables, writer))


def _sorted(rows: pa.Table) -> pa.Table:
    kept = rows.drop_columns(["level"])
    order: Any = [(name, "ascending") for name in ORDER]
    return kept.sort_by(order)

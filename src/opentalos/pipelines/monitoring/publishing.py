"""The rollups of a batch into the OLAP store.

A store of files gets them from Spark's tasks: each writes files where it runs, and the driver
publishes the names that successful attempts have returned. So no rollup passes through the driver,
and files of attempts that failed or were repeated are never part of a table. Only the few rollups
of a small table on one machine are written by the driver, which saves most of a small batch's time.
Druid is sent rows over HTTP, an hour at a time.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from opentalos.pipelines.lake.layout import DataFile
from opentalos.pipelines.lake.sink import write_files
from opentalos.pipelines.monitoring.rollup_tables import (
    DIMENSIONS,
    LEVELS,
    MEASURE,
    METRICS,
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
from opentalos.pipelines.olap.store import TIME, OlapStore, Writer
from opentalos.pipelines.olap.table_set import HOUR, TABLE_NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_FILE: Final = 250_000  # of level 0, whose rollups one task writes into one file
_FINEST: Final = min(LEVELS, key=lambda name: LEVELS[name])
# Compresses well and keeps a measure's values together.
_ORDER: Final = (MEASURE, "service", "tenant", "topic", TIME)


def publish_files(
    olap: FileStore,
    level_0: "DataFrame",
    hours: Sequence[int],
    writer: Writer,
    *,
    small: bool = False,
) -> None:
    """Replace the rollups of these hours, Unix ms.

    Args:   level_0: whole hours, and maybe others; small: it is one partition, whose rollups the
            driver has the memory for; its writing saves tasks and a Python worker.
    Raises: RowsMissing: executors wrote to disks that this machine does not have; LeaseNotHeld;
            Unavailable: the store was down for too long.
    """
    inside = level_0.where(hour_column().isin(list(hours)))
    rollups = rollup_rows(inside)
    tasks = rollups.coalesce(1) if small else _repartitioned(olap, rollups, inside)
    sorted_tasks = tasks.sortWithinPartitions(HOUR, TABLE_NAME, *_ORDER)

    def written() -> list[DataFile]:
        file_writer = olap.writer(METRICS)
        if small:
            return list(file_writer.write(sorted_tasks.toArrow().to_batches()))
        return write_files(sorted_tasks, file_writer)

    files = when_up(METRICS.name, written)
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
    order: Any = [(name, "ascending") for name in _ORDER]
    return kept.sort_by(order)

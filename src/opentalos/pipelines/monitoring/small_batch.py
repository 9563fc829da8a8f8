"""A small batch in the driver's memory: the same rows as by Spark, without its jobs.

Reading and judging a few messages is one job of Spark's. Each further one costs a tenth of a second
and more before its first row, however few rows there are, and many times as much in a new process.
So the rows that ``rollups`` merges and adds up as jobs are merged and added up by Arrow here.
"""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from opentalos.pipelines.lake.layout import TIME_TYPE
from opentalos.pipelines.lake.tables import HOUR_MS, hour_of
from opentalos.pipelines.monitoring.rollup_tables import (
    DIMENSIONS,
    KIND,
    LEVELS,
    MEASURE,
    METRICS,
    ORDER,
    sketch_table,
)
from opentalos.pipelines.monitoring.rollups import KEY, LAYOUT, LEVEL_0, level_0_columns
from opentalos.pipelines.olap.store import BUCKET, COUNT, TIME
from opentalos.pipelines.olap.table_set import HOUR, TABLE_NAME, hour_text
from opentalos.pipelines.service_events.json_events import REASON, EventCheck

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BYTES_MAX: Final = 32 << 10  # of a message, since all of a batch must fit into the driver
BATCH_BYTES_MAX: Final = 8 << 20  # of its rows in memory; rollups take several times as much
_LARGE: Final = "_large"
_VALUE: Final = "_value"
_PLACE: Final = "_place"
_SOURCE: Final = ("source_partition", "source_offset")
_BEGAN_MS: Final = "began_ms"
_AMOUNT: Final = "amount"
_BUCKETS: Final = "buckets"


class SmallBatch(NamedTuple):
    """The messages of a batch: level 0 of the valid ones, as ``LEVEL_0``, and the others with
    partition, offset, reason, value."""

    good: pa.Table
    bad: pa.Table


class SmallBatches:
    """Takes batches into memory. The columns are made once, as those of the check.

    Args: check: of the events; it judges null instead of a large message.
    """

    def __init__(self, check: EventCheck) -> None:
        self._check = check
        large = F.coalesce(F.length("value") > BYTES_MAX, F.lit(False))
        self._bounded = {"value": F.when(~large, F.col("value")), _LARGE: large}
        value = F.when(F.col(REASON).isNotNull(), F.col("message.value"))
        self._columns = [
            *level_0_columns("message.partition", "message.offset"),
            F.col(REASON),
            F.col(f"message.{_LARGE}"),
            value.alias(_VALUE),
        ]

    def take(self, messages: "DataFrame", rows_max: int) -> SmallBatch | None:
        """All messages, by one job; None: they are more than ``rows_max``, or they or one of them
        are large."""
        judged = self._check.judged(messages.withColumns(self._bounded))
        rows = judged.select(*self._columns).limit(rows_max + 1).toArrow()
        too_large = rows.nbytes > BATCH_BYTES_MAX or pc.any(rows.column(_LARGE)).as_py()
        if rows.num_rows > rows_max or too_large:
            return None
        is_good = pc.is_null(rows.column(REASON))
        good = rows.filter(is_good).select(LEVEL_0.names).cast(LEVEL_0)
        bad = rows.filter(pc.invert(is_good)).select([*_SOURCE, REASON, _VALUE])
        return SmallBatch(good, bad.rename_columns(["partition", "offset", "reason", "value"]))


def hours_of(level_0: pa.Table) -> list[int]:
    """The hours in which the intervals began, Unix ms, ascending."""
    return sorted({hour_of(began) for began in pc.unique(_began_ms(level_0)).to_pylist()})


def merged_level_0(stored: pa.Table, fresh: pa.Table) -> pa.Table:
    """As ``merge_level_0`` of both: one row per key, the last one in the topic.

    Args: stored: rows of earlier releases do not say when their interval began.
    """
    at = _began_ms(stored).cast(pa.timestamp("ms", "UTC")).cast(TIME_TYPE)
    place = stored.schema.get_field_index(LAYOUT.time)
    began = pc.coalesce(stored.column(place), at)
    stored = stored.set_column(place, LEVEL_0.field(LAYOUT.time), began)
    rows = pa.concat_tables([stored.select(LEVEL_0.names), fresh]).combine_chunks()
    order = pc.sort_indices(
        rows.select(_SOURCE), sort_keys=[(name, "ascending") for name in _SOURCE]
    )
    keys = rows.select(KEY).take(order).append_column(_PLACE, order)
    last = keys.group_by(list(KEY), use_threads=False).aggregate([(_PLACE, "last")])
    return rows.take(last.column(f"{_PLACE}_last").combine_chunks())


def rollups_of(level_0: pa.Table) -> pa.Table:
    """As ``rollup_rows``, in the order of hours and tables, and by ``ORDER`` in each."""
    keyed = level_0.select(KEY).append_column(_BEGAN_MS, _began_ms(level_0))
    # By time, so that the last value of a group is the one of its last interval.
    order = pc.sort_indices(keyed, sort_keys=[("at_ms", "ascending")])
    keyed, maps = keyed.take(order), level_0.select(["sums", "gauges", "sketches"]).take(order)
    amounts = pa.concat_tables(
        [
            _amounts(keyed, maps.column("sums"), "sum"),
            _amounts(keyed, maps.column("gauges"), "gauge"),
        ]
    )
    counts = _counts(keyed, maps.column("sketches"))
    tables: list[pa.Table] = []
    for level, step_ms in LEVELS.items():
        tables += (_measures(amounts, level, step_ms), _sketches(counts, level, step_ms))
    schema = METRICS.layout().schema
    whole = pa.concat_tables(tables, promote_options="default").select(schema.names).cast(schema)
    return whole.sort_by([(name, "ascending") for name in (HOUR, TABLE_NAME, *ORDER)])


def _began_ms(level_0: pa.Table) -> pa.ChunkedArray:
    return pc.subtract(level_0.column("at_ms"), level_0.column("step_ms"))


def _amounts(keyed: pa.Table, maps: pa.ChunkedArray, kind: str) -> pa.Table:
    rows = _flat(keyed, maps, MEASURE, _AMOUNT)
    return rows.append_column(KIND, pa.repeat(kind, rows.num_rows))


def _counts(keyed: pa.Table, sketches: pa.ChunkedArray) -> pa.Table:
    by_measure = _flat(keyed, sketches, MEASURE, _BUCKETS)
    outer = by_measure.drop_columns([_BUCKETS])
    rows = _flat(outer, by_measure.column(_BUCKETS), BUCKET, COUNT)
    place = rows.schema.get_field_index(BUCKET)
    return rows.set_column(place, BUCKET, rows.column(BUCKET).cast(pa.int32()))


def _flat(rows: pa.Table, maps: pa.ChunkedArray, key: str, value: str) -> pa.Table:
    """The rows once for each entry of their map, with two more columns of these names."""
    entry = pa.struct([("key", maps.type.key_type), ("value", maps.type.item_type)])
    # Arrow ends the process if it is asked for the parents of a map's entries.
    lists = maps.combine_chunks().cast(pa.list_(entry))
    entries = pc.list_flatten(lists)
    found = rows.take(pc.list_parent_indices(lists))
    found = found.append_column(key, pc.struct_field(entries, [0]))
    return found.append_column(value, pc.struct_field(entries, [1]))


def _measures(amounts: pa.Table, level: str, step_ms: int) -> pa.Table:
    wanted: Any = {"sum": "total", "count": "samples", "min": "low", "max": "high", "last": "last"}
    grouped = _grouped(amounts, step_ms, (MEASURE, KIND), [(_AMOUNT, each) for each in wanted])
    names = {f"{_AMOUNT}_{function}": name for function, name in wanted.items()}
    return _named(grouped.rename_columns(names), level)


def _sketches(counts: pa.Table, level: str, step_ms: int) -> pa.Table:
    grouped = _grouped(counts, step_ms, (MEASURE, BUCKET), [(COUNT, "sum")])
    return _named(grouped.rename_columns({f"{COUNT}_sum": COUNT}), sketch_table(level))


def _grouped(
    rows: pa.Table, step_ms: int, by: tuple[str, ...], functions: list[tuple[str, str]]
) -> pa.Table:
    """``functions`` of the rows of each interval of a level; TIME in Unix ms."""
    timed = rows.append_column(TIME, _floor(rows.column(_BEGAN_MS), step_ms))
    return timed.group_by([TIME, *DIMENSIONS, *by], use_threads=False).aggregate(functions)


def _named(rows: pa.Table, table: str) -> pa.Table:
    """With the table's name and the hour, and TIME as a time."""
    time_ms = rows.column(TIME).combine_chunks()
    hours = _floor(time_ms, HOUR_MS)
    starts = pc.unique(hours)
    texts = pa.array([hour_text(start) for start in starts.to_pylist()], pa.string())
    place = rows.schema.get_field_index(TIME)
    timed = rows.set_column(place, TIME, time_ms.cast(pa.timestamp("ms", "UTC")).cast(TIME_TYPE))
    timed = timed.append_column(HOUR, texts.take(pc.index_in(hours, value_set=starts)))
    return timed.append_column(TABLE_NAME, pa.repeat(table, rows.num_rows))


def _floor(time_ms: Any, step_ms: int) -> Any:
    return pc.multiply(pc.divide(time_ms, step_ms), step_ms)

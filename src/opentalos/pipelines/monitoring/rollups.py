"""Measurements by 10 s, 1 min and 1 h: pure functions from DataFrame to DataFrame.

Level 0 has one row per key (dimensions and end of the interval), so a repeated row replaces itself.
Rollups are recomputed from the whole level 0 of an hour, so measurements that arrive hours late,
twice or in another order give the same rows.
"""

from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from opentalos.pipelines.lake.layout import TIME_TYPE, Layout
from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.monitoring.rollup_tables import DIMENSIONS, KIND, LEVELS, MEASURE, METRICS
from opentalos.pipelines.olap.store import BUCKET, COUNT, SKETCHES, TIME
from opentalos.pipelines.olap.table_set import HOUR, TABLE_NAME
from opentalos.pipelines.service_events.json_events import TIME_MS_MAX, not_ahead, number
from opentalos.wire.metrics.measurement import EVENT_BYTES_MAX
from opentalos.wire.metrics.sketch import BUCKET_MAX, BUCKET_MIN

KEY: Final = (*DIMENSIONS, "at_ms")
_HOUR_PATTERN: Final = "yyyy-MM-dd'T'HH"  # HOUR_FORMAT in Spark's words; sessions have UTC
COUNT_MAX: Final = 1 << 40  # of one bucket in one interval; 2 ** 23 of them can be added up

_AMOUNTS: Final = MapType(StringType(), DoubleType())
_COUNTS: Final = MapType(StringType(), MapType(StringType(), LongType()))

EVENT: Final = StructType(
    [
        StructField("at_ms", LongType(), False, number(0, TIME_MS_MAX)),
        StructField("step_ms", LongType(), False, number(1, HOUR_MS)),
        StructField("service", StringType(), False),
        *(StructField(name, StringType()) for name in DIMENSIONS[1:-1]),
        StructField("partition", IntegerType(), True, number(-1, (1 << 31) - 1)),
        StructField("sums", _AMOUNTS, True, number(0)),
        StructField("gauges", _AMOUNTS),
        StructField("sketches", _COUNTS, True, number(1, COUNT_MAX)),
    ]
)

_AMOUNTS_ARROW: Final = pa.map_(pa.string(), pa.float64())
_SOURCE: Final = ("source_partition", "source_offset")
_BEGAN: Final = "began"  # when the interval began
LEVEL_0: Final = pa.schema(
    [
        *((name, pa.string()) for name in DIMENSIONS[:-1]),
        ("partition", pa.int32()),
        ("at_ms", pa.int64()),
        ("step_ms", pa.int64()),
        ("sums", _AMOUNTS_ARROW),
        ("gauges", _AMOUNTS_ARROW),
        ("sketches", pa.map_(pa.string(), pa.map_(pa.string(), pa.int64()))),
        ("source_partition", pa.int32()),
        ("source_offset", pa.int64()),
        pa.field(_BEGAN, TIME_TYPE, nullable=False),
    ]
)
LAYOUT: Final = Layout("metrics", LEVEL_0, _BEGAN)


def event_rules(late_hours: int) -> dict[str, str]:
    """Further rules for events, for ``EventCheck``.

    An event's time is compared with the append time of its message, which is stored, so a batch
    that is repeated much later gives the same result.
    """
    bucket = (
        f"b RLIKE '^-?[0-9]{{1,4}}$' AND try_cast(b AS INT) BETWEEN {BUCKET_MIN} AND {BUCKET_MAX}"
    )
    appended = "unix_millis(message.append_time)"
    return {
        f"more than {EVENT_BYTES_MAX} bytes": f"length(message.value) <= {EVENT_BYTES_MAX}",
        "interval before 1970": "at_ms >= step_ms",
        **not_ahead("at_ms"),
        f"over {late_hours} h late": f"at_ms >= {appended} - {late_hours * HOUR_MS}",
        "bucket out of bounds": (
            f"sketches IS NULL OR forall(map_values(sketches), s -> forall(map_keys(s), "
            f"b -> {bucket}))"
        ),
    }


def hour_column() -> Column:
    """The hour in which a row's interval began, in Unix ms."""
    return _floor(F.col("at_ms") - F.col("step_ms"), HOUR_MS)


def level_0(events: DataFrame) -> DataFrame:
    """Valid events with the columns of ``LEVEL_0``."""
    return events.select(*level_0_columns())


def level_0_columns(partition: str = _SOURCE[0], offset: str = _SOURCE[1]) -> list[Column]:
    """The columns of ``LEVEL_0`` of events: empty dimensions and maps instead of nulls.

    Args: partition, offset: names of the columns with those of the event's message.
    """
    nothing = F.create_map().cast(_AMOUNTS), F.create_map().cast(_COUNTS)
    return [
        *(F.coalesce(name, F.lit("")).alias(name) for name in DIMENSIONS[:-1]),
        F.coalesce("partition", F.lit(-1)).alias("partition"),
        F.col("at_ms"),
        F.col("step_ms"),
        F.coalesce("sums", nothing[0]).alias("sums"),
        F.coalesce("gauges", nothing[0]).alias("gauges"),
        F.coalesce("sketches", nothing[1]).alias("sketches"),
        F.col(partition).alias(_SOURCE[0]),
        F.col(offset).alias(_SOURCE[1]),
        _began(),
    ]


def level_0_of_both(stored: DataFrame, fresh: DataFrame) -> DataFrame:
    """The rows of both, for ``merge_level_0``.

    Rows that earlier releases stored do not say when their interval began.
    """
    names = LEVEL_0.names
    stored = stored.withColumn(_BEGAN, F.coalesce(_BEGAN, _began()))
    return stored.select(*names).unionByName(fresh.select(*names))


def merge_level_0(rows: DataFrame) -> DataFrame:
    """One row per key: the last one in the topic, in whatever order they arrive here."""
    source = F.struct("source_partition", "source_offset")
    row = F.struct(*[name for name in LEVEL_0.names if name not in KEY])
    return rows.groupBy(*KEY).agg(F.max_by(row, source).alias("row")).select(*KEY, "row.*")


def measures_by_level(rows: DataFrame) -> DataFrame:
    """Sums and gauges of level 0, aggregated for each level.

    Columns: level, time, the dimensions, measure, kind, total, samples (number of intervals), low
    and high (of one interval), last. The mean of a gauge is total / samples.
    """
    amounts = F.map_from_arrays(
        F.array(F.lit("sum"), F.lit("gauge")), F.array(F.col("sums"), F.col("gauges"))
    )
    by_kind = rows.select(*KEY, "step_ms", F.explode(amounts).alias(KIND, "amounts"))
    flat = by_kind.select(*KEY, "step_ms", KIND, F.explode("amounts").alias(MEASURE, "value"))
    return (
        _at_levels(flat, "at_ms", MEASURE, KIND, "value")
        .groupBy("level", TIME, *DIMENSIONS, MEASURE, KIND)
        .agg(
            F.sum("value").alias("total"),
            F.count("*").alias("samples"),
            F.min("value").alias("low"),
            F.max("value").alias("high"),
            F.max_by("value", "at_ms").alias("last"),
        )
    )


def sketches_by_level(rows: DataFrame) -> DataFrame:
    """Sketches of level 0, merged for each level.

    Columns: level, time, the dimensions, measure, bucket, count.
    """
    by_measure = rows.select(*KEY, "step_ms", F.explode("sketches").alias(MEASURE, "counts"))
    flat = by_measure.select(*KEY, "step_ms", MEASURE, F.explode("counts").alias("_key", COUNT))
    bucket = F.col("_key").cast("int").alias(BUCKET)
    return (
        _at_levels(flat.select("*", bucket), MEASURE, BUCKET, COUNT)
        .groupBy("level", TIME, *DIMENSIONS, MEASURE, BUCKET)
        .agg(F.sum(COUNT).alias(COUNT))
    )


def rollup_rows(rows: DataFrame) -> DataFrame:
    """The rollups of level 0 as one table, with the columns of ``METRICS.layout()``."""
    tables = measures_by_level(rows).withColumnRenamed("level", TABLE_NAME)
    name = F.concat("level", F.lit(SKETCHES)).alias(TABLE_NAME)
    sketches = sketches_by_level(rows).select("*", name).drop("level")
    whole = tables.unionByName(sketches, allowMissingColumns=True)
    hour = F.date_format(TIME, _HOUR_PATTERN).alias(HOUR)
    return whole.select("*", hour).select(*METRICS.layout().schema.names)


def _began() -> Column:
    return F.timestamp_millis(F.col("at_ms") - F.col("step_ms")).alias(_BEGAN)


def _at_levels(rows: DataFrame, *columns: str) -> DataFrame:
    """Each row once for each level, with the start of its interval at that level."""
    began = F.col("at_ms") - F.col("step_ms")
    places = [
        F.struct(F.lit(name).alias("level"), F.timestamp_millis(_floor(began, step_ms)).alias(TIME))
        for name, step_ms in LEVELS.items()
    ]
    return rows.select(*DIMENSIONS, *columns, F.inline(F.array(*places)))


def _floor(time_ms: Column, step_ms: int) -> Column:
    return time_ms - time_ms % step_ms

"""Sums a month's usage: DataFrame functions over exact decimals.

No value is a float. A value that does not fit its type fails the query (ANSI mode) and never
becomes null.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

from opentalos.pipelines.billing.plans.days import Days
from opentalos.pipelines.billing.plans.price_plan import COUNT_DIGITS
from opentalos.pipelines.lake.periods.month import Month
from opentalos.pipelines.lake.periods.whole_days import DAY_MS

COUNT: Final = DecimalType(COUNT_DIGITS, 0)
_ENDS: Final = ("first_offset", "next_offset")  # of a minute
_HALF_BITS: Final = 32
_HALVES: Final = (0, _HALF_BITS)  # of a hash, by their lowest bit
_HALF_MASK: Final = (1 << _HALF_BITS) - 1
_HALF: Final = DecimalType(10, 0)


def with_day(usage: DataFrame, month: Month, spans: Sequence[Days]) -> DataFrame:
    """With ``day``: the first day of the span, of ``TenantPlans.spans``, that a minute is in."""
    day: Column = F.lit(0)
    for span in spans[1:]:
        begins = F.unix_millis("minute") >= month.begin_ms + span.begin * DAY_MS
        day = F.when(begins, span.begin).otherwise(day)
    return usage.withColumn("day", day)


def partition_totals(usage: DataFrame) -> DataFrame:
    """One row per tenant, topic, name, partition, ``day``, of ``with_day``, and ``date``: totals,
    range of offsets, hashes of its ends. All other sums are made from these few rows.

    ``date``: days since 1970-01-01, in UTC.
    """
    date = F.expr(f"unix_millis(minute) div {DAY_MS}").cast("int").alias("date")
    # A greatest text among the aggregates would make Spark sort all rows instead of hashing them.
    return usage.groupBy("tenant", "topic", "name", "partition", "day", date).agg(
        _exact_sum("records"),
        _exact_sum("bytes"),
        F.min("first_offset").alias("first_offset"),
        F.max("next_offset").alias("next_offset"),
        *(F.sum(_print(name, half)).alias(f"{name}_{half}") for name in _ENDS for half in _HALVES),
    )


def topic_totals(partitions: DataFrame) -> DataFrame:
    """One row per tenant and topic, from ``partition_totals``."""
    return partitions.groupBy("tenant", "topic").agg(
        F.max("name").alias("name"),
        F.count_distinct("partition").cast("int").alias("partitions"),
        F.sum("records").cast(COUNT).alias("records"),
        F.sum("bytes").cast(COUNT).alias("bytes"),
    )


def span_totals(partitions: DataFrame) -> DataFrame:
    """One row per tenant and ``day``, from ``partition_totals``."""
    return partitions.groupBy("tenant", "day").agg(
        F.sum("records").cast(COUNT).alias("records"),
        F.sum("bytes").cast(COUNT).alias("bytes"),
    )


def daily_totals(partitions: DataFrame) -> DataFrame:
    """One row per tenant and day with usage, from ``partition_totals``; ``day`` is its ``date``."""
    return partitions.groupBy("tenant", F.col("date").alias("day")).agg(
        F.sum("records").cast(COUNT).alias("records"),
        F.sum("bytes").cast(COUNT).alias("bytes"),
    )


def broken_chains(partitions: DataFrame) -> DataFrame:
    """The partitions, from ``partition_totals``, whose minutes have gaps or overlaps.

    In a chain of minutes every offset at which one ends is one at which another begins, except for
    the last and the first. So the sums of these offsets' hashes agree; a gap and an overlap of the
    same length only agree in the number of records. Source: docs/operating/billing.md.
    """
    prints = [f"{name}_{half}" for name in _ENDS for half in _HALVES]
    whole = partitions.groupBy("topic", "partition").agg(
        F.max("next_offset").alias("next_offset"),
        F.min("first_offset").alias("first_offset"),
        F.sum("records").alias("records"),
        *(F.sum(name).alias(name) for name in prints),
    )
    spanned = (F.col("next_offset") - F.col("first_offset")).cast(COUNT)
    broken = spanned != F.col("records")
    for half in _HALVES:
        inner = [F.col(f"{name}_{half}") - _print(name, half) for name in _ENDS]
        broken |= inner[0] != inner[1]
    return whole.where(broken).select("topic", "partition")


def _exact_sum(name: str) -> Column:
    """The sum of a bigint as ``COUNT``, under the same name.

    Both halves are summed as bigints, which takes a third of the time of decimals; 2 ** 31 rows
    fit, and more fail the query.
    """
    high = F.sum(F.shiftright(name, _HALF_BITS)).cast(COUNT)
    low = F.sum(F.col(name).bitwiseAND(F.lit(_HALF_MASK))).cast(COUNT)
    return (high * F.lit(1 << _HALF_BITS).cast(_HALF) + low).cast(COUNT).alias(name)


def _print(name: str, half: int) -> Column:
    """Half of the hash of an offset: sums of 2 ** 31 of them fit."""
    return F.shiftright(F.xxhash64(name), half).bitwiseAND(F.lit(_HALF_MASK))


def gaps(usage: DataFrame) -> DataFrame:
    """Partitions whose minutes have gaps or overlaps, which are counted apart.

    Columns: topic, partition, name; missing and doubled, the records in no minute and in two.
    """
    before = Window.partitionBy("topic", "partition").orderBy("minute")
    end = F.max("next_offset").over(before.rowsBetween(Window.unboundedPreceding, -1))
    step = (F.col("first_offset") - end).cast(COUNT)
    off = (F.col("records") - (F.col("next_offset") - F.col("first_offset"))).cast(COUNT)
    zero = F.lit(0).cast(COUNT)
    steps = usage.select(
        *("topic", "partition", "name"),
        F.greatest(step, zero).alias("gap"),
        F.greatest(-step, zero).alias("overlap"),
        F.greatest(-off, zero).alias("fewer"),
        F.greatest(off, zero).alias("more"),
    )
    return (
        steps.groupBy("topic", "partition")
        .agg(
            F.max("name").alias("name"),
            F.sum(F.col("gap") + F.col("fewer")).cast(COUNT).alias("missing"),
            F.sum(F.col("overlap") + F.col("more")).cast(COUNT).alias("doubled"),
        )
        .where("missing <> 0 OR doubled <> 0")
    )

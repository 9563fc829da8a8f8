"""Sums a month's usage: DataFrame functions over exact decimals.

Python workers sum the rows of the files that they read, by day and partition, with DuckDB; the
few rows that they return are summed by Spark.

No value is a float. A value that does not fit its type fails the query (ANSI mode) and never
becomes null.
"""

from collections.abc import Iterator, Sequence
from tempfile import TemporaryDirectory
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
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
_PRINTS: Final = tuple(f"{name}_{half}" for name in _ENDS for half in _HALVES)
_KEY: Final = ("tenant", "topic", "name", "partition")
_DAY_US: Final = DAY_MS * 1000
_SUM: Final = pa.decimal128(38, 0)
PARTIAL: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("topic", pa.string()),
        ("name", pa.string()),
        ("partition", pa.int32()),
        ("date", pa.int32()),  # since 1970-01-01, in UTC
        ("records", _SUM),
        ("bytes", _SUM),
        ("first_offset", pa.int64()),
        ("next_offset", pa.int64()),
        *((name, pa.int64()) for name in _PRINTS),
    ]
)
_SETTINGS: Final[dict[str, str | int | float | list[str]]] = {
    "memory_limit": "512MB",  # of a worker; DuckDB spills the rest to disk
    "threads": 1,  # a task has one core
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_SUM_ROWS: Final = f"""
    SELECT tenant, topic, name, partition, date,
        sum(records)::DECIMAL(38, 0) AS records, sum(bytes)::DECIMAL(38, 0) AS bytes,
        min(first_offset) AS first_offset, max(next_offset) AS next_offset,
        {", ".join(f"sum({name})::BIGINT AS {name}" for name in _PRINTS)}
    FROM given GROUP BY ALL"""
_RETURNED_ROWS: Final = 50_000  # in one batch
# xxHash64 of eight bytes: its primes and the seed of Spark. Specification: xxhash.com.
_PRIMES: Final = tuple(
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_SEED: Final = 42


def with_day(
    rows: DataFrame, month: Month, spans: Sequence[Days], time_ms: Column | None = None
) -> DataFrame:
    """With ``day``: the first day of the span, of ``TenantPlans.spans``, that a row is in.

    Args: time_ms: of a row; default: its minute.
    """
    at = F.unix_millis("minute") if time_ms is None else time_ms
    day: Column = F.lit(0)
    for span in spans[1:]:
        day = F.when(at >= month.begin_ms + span.begin * DAY_MS, span.begin).otherwise(day)
    return rows.withColumn("day", day)


def partial_sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of the table "usage", in a worker, as sums by partition and day: rows of ``PARTIAL``."""
    first = next(batches, None)
    if first is None:
        return

    def given() -> Iterator[pa.RecordBatch]:
        yield _with_prints(first)
        yield from map(_with_prints, batches)

    schema = _with_prints(first.slice(0, 0)).schema
    with TemporaryDirectory(prefix="talos-usage-") as spill:
        settings = {**_SETTINGS, "temp_directory": spill}
        with duckdb.connect(":memory:", config=settings) as engine:
            engine.register("given", pa.RecordBatchReader.from_batches(schema, given()))
            for batch in engine.sql(_SUM_ROWS).to_arrow_reader(_RETURNED_ROWS):
                yield from pa.Table.from_batches([batch]).cast(PARTIAL).to_batches()


def _with_prints(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with their date and the halves of the hashes of their ends."""
    names = [*_KEY, "records", "bytes", *_ENDS]
    columns = [batch.column(name) for name in names]
    minutes = batch.column("minute").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    columns.append(pa.array(minutes // _DAY_US, pa.int32()))
    for name in _ENDS:
        hashed = xxhash64(batch.column(name).to_numpy())
        for half in _HALVES:
            part = (hashed >> np.uint64(half)) & np.uint64(_HALF_MASK)
            columns.append(pa.array(part.astype(np.int64)))
    return pa.RecordBatch.from_arrays(columns, names=[*names, "date", *_PRINTS])


def xxhash64(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The hash of bigints by Spark's function of this name, as unsigned numbers."""
    first, second, third, fourth, fifth = _PRIMES
    hashed = _rotated(values.view(np.uint64) * second, 31) * first
    hashed ^= np.uint64((_SEED + int(fifth) + values.itemsize) & 0xFFFFFFFFFFFFFFFF)
    hashed = _rotated(hashed, 27) * first + fourth
    for shift, prime in ((33, second), (29, third)):
        hashed ^= hashed >> np.uint64(shift)
        hashed *= prime
    hashed ^= hashed >> np.uint64(32)
    return hashed


def _rotated(values: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    rotated: NDArray[np.uint64] = values << np.uint64(bits) | values >> np.uint64(64 - bits)
    return rotated


def partition_totals(partial: DataFrame, month: Month, spans: Sequence[Days]) -> DataFrame:
    """One row per tenant, topic, name, partition, ``day``, of ``with_day``, and ``date``: totals,
    range of offsets, hashes of its ends. All other sums are made from these few rows.

    Args: partial: rows of ``PARTIAL``, any number of each date. ``date``: days since 1970-01-01.
    """
    whole = partial.groupBy(*_KEY, "date").agg(
        *(F.sum(name).cast(COUNT).alias(name) for name in ("records", "bytes")),
        F.min("first_offset").alias("first_offset"),
        F.max("next_offset").alias("next_offset"),
        *(F.sum(name).alias(name) for name in _PRINTS),
    )
    return with_day(whole, month, spans, F.col("date").cast("bigint") * DAY_MS)


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
    whole = partitions.groupBy("topic", "partition").agg(
        F.max("next_offset").alias("next_offset"),
        F.min("first_offset").alias("first_offset"),
        F.sum("records").alias("records"),
        *(F.sum(name).alias(name) for name in _PRINTS),
    )
    spanned = (F.col("next_offset") - F.col("first_offset")).cast(COUNT)
    broken = spanned != F.col("records")
    for half in _HALVES:
        inner = [F.col(f"{name}_{half}") - _print(name, half) for name in _ENDS]
        broken |= inner[0] != inner[1]
    return whole.where(broken).select("topic", "partition")


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

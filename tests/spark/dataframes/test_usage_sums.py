"""Usage is summed by tenant, topic and span of the month, and its chains are checked."""

from datetime import timedelta
from decimal import Decimal

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from opentalos.pipelines.billing.plans.days import Days
from opentalos.pipelines.billing.usage_sums import (
    PARTIAL,
    broken_chains,
    daily_totals,
    gaps,
    partial_sums,
    partition_totals,
    span_totals,
    topic_totals,
    xxhash64,
)
from opentalos.pipelines.lake.periods.month import Month
from opentalos.pipelines.lake.periods.whole_days import DAY_MS

MARCH = Month(2026, 3)
USAGE = (
    "tenant STRING, topic STRING, name STRING, partition INT, records BIGINT, bytes BIGINT, "
    "first_offset BIGINT, next_offset BIGINT"
)


def summed(usage: DataFrame) -> DataFrame:
    return usage.mapInArrow(partial_sums, from_arrow_schema(PARTIAL))


def test_workers_and_spark_hash_alike(spark: SparkSession) -> None:
    numbers = [0, 1, -1, 42, 1 << 31, 1 << 62, (1 << 63) - 1, -(1 << 63), 0x0123456789ABCDEF]
    frame = spark.createDataFrame([(number,) for number in numbers], "number BIGINT")
    wanted = [row[0] for row in frame.select(F.xxhash64("number")).collect()]
    assert xxhash64(np.array(numbers, np.int64)).view(np.int64).tolist() == wanted


def test_usage_is_summed_by_topic_and_gaps_are_found(spark: SparkSession) -> None:
    rows = [
        ("a", "u1", "n1", 0, 10, 1 << 48, 0, 10),
        ("a", "u1", "n1", 0, 5, 1 << 48, 10, 15),
        ("a", "u1", "n1", 1, 5, 7, 0, 5),
        ("a", "u1", "n1", 1, 5, 7, 8, 13),  # three records are missing before it
        ("b", "u2", "n1", 0, 1, 1, 0, 1),
        ("c", "u3", "n3", 0, 10, 1, 0, 10),
        ("c", "u3", "n3", 0, 5, 1, 8, 13),  # two records are in both
        ("c", "u3", "n3", 0, 5, 1, 15, 20),  # and two are missing
    ]
    minutes = [(*row, MARCH.begin + timedelta(days=2 * number)) for number, row in enumerate(rows)]
    usage = spark.createDataFrame(minutes, USAGE + ", minute TIMESTAMP")
    days = [Days(0, 2, 31), Days(2, 12, 31), Days(12, 31, 31)]
    partitions = partition_totals(summed(usage), MARCH, days).persist()
    spans = sorted(map(tuple, span_totals(partitions).select("tenant", "day", "records").collect()))
    assert spans == [
        ("a", 0, Decimal(10)),
        ("a", 2, Decimal(15)),
        ("b", 2, Decimal(1)),
        ("c", 2, Decimal(10)),
        ("c", 12, Decimal(10)),
    ]
    found = sorted(topic_totals(partitions).collect())
    assert [tuple(row) for row in found] == [
        ("a", "u1", "n1", 2, Decimal(25), Decimal((1 << 49) + 14)),
        ("b", "u2", "n1", 1, Decimal(1), Decimal(1)),
        ("c", "u3", "n3", 1, Decimal(20), Decimal(3)),
    ]
    assert sorted(map(tuple, broken_chains(partitions).collect())) == [("u1", 1), ("u3", 0)]
    assert sorted(map(tuple, gaps(usage).collect())) == [
        ("u1", 1, "n1", Decimal(3), Decimal(0)),
        ("u3", 0, "n3", Decimal(2), Decimal(2)),
    ]
    found = sorted(daily_totals(partitions).select("tenant", "day", "records").collect())
    first = MARCH.begin_ms // DAY_MS
    assert [tuple(row) for row in found] == [
        *(("a", first + 2 * number, Decimal(count)) for number, count in enumerate((10, 5, 5, 5))),
        ("b", first + 8, Decimal(1)),
        *(("c", first + 10 + 2 * number, Decimal(n)) for number, n in enumerate((10, 5, 5))),
    ]
    partitions.unpersist()


def test_a_sum_may_exceed_a_bigint(spark: SparkSession) -> None:
    largest, at = (1 << 63) - 1, MARCH.begin
    rows = [
        ("a", "u1", "n1", 0, 1, largest, 0, 1, at),
        ("a", "u1", "n1", 0, 1, largest, 1, 2, at + timedelta(minutes=1)),
        ("a", "u1", "n1", 0, 1, 3, 2, 3, at + timedelta(minutes=2)),
        ("a", "u1", "n2", 0, 1, largest, 3, 4, at + timedelta(minutes=3)),  # another name
    ]
    frame = spark.createDataFrame(rows, USAGE + ", minute TIMESTAMP")
    partitions = partition_totals(summed(frame), MARCH, [Days(0, 31, 31)])
    (topic,) = topic_totals(partitions).collect()
    assert tuple(topic) == ("a", "u1", "n2", 1, Decimal(4), Decimal(3 * largest + 3))
    (span,) = span_totals(partitions).collect()
    assert span["bytes"] == Decimal(3 * largest + 3)
    assert not broken_chains(partitions).collect()

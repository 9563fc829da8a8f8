"""Byte-minutes by Spark are those of a slow count, minute by minute; reports in any order."""

import random
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from opentalos.pipelines.billing.plans.days import Days
from opentalos.pipelines.billing.storage import byte_times
from opentalos.pipelines.lake.periods.month import Month
from opentalos.pipelines.metering import kept_table, usage_table

MONTH = Month(2026, 2)
MINUTE_MS = 60_000
DAY_MINUTES = 1_440
BEGIN = MONTH.begin_ms // MINUTE_MS
SPANS = [Days(0, 1, 28), Days(1, 28, 28)]
SEED = 7
PARTITIONS = 12


def at(minute: int) -> datetime:
    return datetime.fromtimestamp((BEGIN + minute) * 60, UTC)


def usage(partition: int, minute: int, first: int, records: int, size: int) -> dict[str, Any]:
    return {
        "tenant": f"CL{partition % 2}",
        "topic": f"topic-{partition // 3}",
        "name": "orders",
        "partition": partition,
        "minute": at(minute),
        "records": records,
        "bytes": size,
        "first_offset": first,
        "next_offset": first + records,
    }


def kept(partition: int, minute: int, start: int) -> dict[str, Any]:
    return {
        "tenant": f"CL{partition % 2}",
        "topic": f"topic-{partition // 3}",
        "name": "orders",
        "partition": partition,
        "minute": at(minute),
        "start_offset": start,
    }


def sums(
    spark: SparkSession, rows: list[dict[str, Any]], reports: list[dict[str, Any]]
) -> dict[tuple[str, str, int], int]:
    """Byte-minutes by tenant, topic and span, without zeros."""
    stored = spark.createDataFrame(rows, from_arrow_schema(usage_table.SCHEMA))
    said = spark.createDataFrame(reports, from_arrow_schema(kept_table.SCHEMA))
    found = byte_times(stored, said.where(f"minute >= '{MONTH.begin:%Y-%m-%d}'"), MONTH, SPANS)
    return {
        (row.tenant, row.topic, span.begin): int(row[f"day_{span.begin}"]) // MINUTE_MS
        for row in found.collect()
        for span in SPANS
        if row[f"day_{span.begin}"]
    }


def slow(
    rows: list[dict[str, Any]], reports: list[dict[str, Any]]
) -> dict[tuple[str, str, int], int]:
    found: Counter[tuple[str, str, int]] = Counter()
    for row in rows:
        until = max(
            (
                report["minute"]
                for report in reports
                if (report["topic"], report["partition"]) == (row["topic"], row["partition"])
                and report["start_offset"] <= row["first_offset"]
            ),
            default=None,
        )
        if until is None:
            continue
        born = int(row["minute"].timestamp()) // 60 + 1 - BEGIN
        end = int(until.timestamp()) // 60 - BEGIN
        for span in SPANS:
            minutes = range(max(born, span.begin * DAY_MINUTES), min(end, span.end * DAY_MINUTES))
            if len(minutes):
                found[row["tenant"], row["topic"], span.begin] += len(minutes) * row["bytes"]
    return dict(found)


def test_each_case_by_hand(spark: SparkSession) -> None:
    rows = [usage(0, -100, 0, 10, 5), usage(0, 10, 10, 10, 7), usage(0, 20, 20, 10, 1_000)]
    key = "CL0", "topic-0", 0
    assert sums(spark, rows, []) == {}
    # From the month's begin to the report; the second row from its end on.
    assert sums(spark, rows, [kept(0, 15, 0)]) == {key: 15 * 5 + 4 * 7}
    # Retention cut the second row: all of it ended with the report before.
    both = [kept(0, 15, 0), kept(0, 30, 15)]
    assert sums(spark, rows, both) == {key: 15 * 5 + 4 * 7 + 9 * 1_000}
    assert sums(spark, rows, both * 2) == sums(spark, rows, both[::-1]) == sums(spark, rows, both)
    # A later month's report shows that the rest was kept to the end of this one.
    later = [*both, kept(0, 90 * DAY_MINUTES, 20)]
    assert sums(spark, rows, later) == {
        key: 15 * 5 + 4 * 7 + (DAY_MINUTES - 21) * 1_000,
        ("CL0", "topic-0", 1): 27 * DAY_MINUTES * 1_000,
    }


def test_random_logs_are_summed_as_minute_by_minute(spark: SparkSession) -> None:
    rng = random.Random(SEED)
    rows: list[dict[str, Any]] = []
    reports: list[dict[str, Any]] = []
    for partition in range(PARTITIONS):
        minute, offset, start = -5 * DAY_MINUTES, 0, 0
        ends = [0]
        for _ in range(40):
            minute += rng.randint(1, 600)
            if minute >= 28 * DAY_MINUTES:
                break
            records = rng.randint(1, 9)
            rows.append(usage(partition, minute, offset, records, rng.randint(0, 1 << 48)))
            offset += records
            ends.append(offset)
            if rng.random() < 0.5:
                reports += [kept(partition, minute, start)] * rng.randint(1, 2)
            if rng.random() < 0.2:
                start = rng.randint(start, offset)
    rng.shuffle(reports)
    found = sums(spark, rows, reports)
    assert found == slow(rows, reports)
    assert len(found) > PARTITIONS // 3

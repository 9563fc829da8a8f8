"""Usage becomes daily peaks, and those a projection of each tenant."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from opentalos.pipelines.lake.periods.whole_days import DAY_MS
from opentalos.pipelines.quota.pipeline import daily_traffic, projected, projections

END_DAY = 20_000
END_MS = END_DAY * DAY_MS
USAGE = (
    "tenant STRING, topic STRING, name STRING, partition INT, minute TIMESTAMP, records BIGINT, "
    "bytes BIGINT, first_offset BIGINT, next_offset BIGINT"
)


def minute(day: int, number: int = 0) -> datetime:
    """Of a day before END_DAY, which is day 0."""
    at = datetime.fromtimestamp((END_DAY + day) * DAY_MS / 1000, UTC)
    return at + timedelta(minutes=number)


def usage(spark: SparkSession, rows: Sequence[tuple[str, datetime, int]]) -> DataFrame:
    return spark.createDataFrame(
        [
            (tenant, f"u{number}", "t", number, at, 1, size, 0, 1)
            for number, (tenant, at, size) in enumerate(rows)
        ],
        USAGE,
    )


def shown(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in rows.collect())


def test_the_busiest_minute_over_all_partitions_is_a_days_peak(spark: SparkSession) -> None:
    rows = [
        ("a", minute(-1, 5), 6_000),
        ("a", minute(-1, 5), 60_000),
        ("a", minute(-1, 6), 12_000),
        ("a", minute(-2, 0), 600),
        ("b", minute(-1, 5), 1_200),
        ("b", minute(-1, 7), -5_000),  # refused when it was taken in; here it must do no harm
        ("c", minute(-1, 7), 0),
        ("a", minute(0, 1), 999_999),  # of the day that has only begun
    ]
    assert shown(daily_traffic(usage(spark, rows), END_DAY)) == [
        ("a", END_DAY - 2, 10.0, 600 / 86_400),
        ("a", END_DAY - 1, 1_100.0, 78_000 / 86_400),
        ("b", END_DAY - 1, 20.0, 1_200 / 86_400),
    ]


def test_huge_counts_do_not_overflow(spark: SparkSession) -> None:
    rows = [("a", minute(-1, 5), (1 << 62)), ("a", minute(-1, 5), (1 << 62))]
    daily = daily_traffic(usage(spark, rows), END_DAY)
    [row] = projections(daily, END_DAY).collect()
    assert row["peak"] == 1 << 50


def test_each_tenant_is_projected_by_itself_with_its_gaps(spark: SparkSession) -> None:
    rows = [("steady", minute(-day, 3), 6_000_000) for day in range(1, 31)]
    rows += [("late", minute(-day, 3), 60_000) for day in (1, 2, 4)]
    found = projections(daily_traffic(usage(spark, rows), END_DAY), END_DAY)
    by_tenant = {row["tenant"]: row for row in found.collect()}
    steady, late = by_tenant["steady"], by_tenant["late"]
    assert (steady["days"], steady["level"], steady["trend_per_day"]) == (30, 100_000, 0)
    assert (steady["peak"], steady["repeated_peak"], steady["spread"]) == (100_000, 100_000, 0)
    assert steady["made_ms"] == END_MS
    assert list(steady["season"]) == [1_000] * 7
    assert (late["days"], late["level"]) == (4, 1_000)
    peaks = np.array([1_000.0, 0.0, 1_000.0, 1_000.0])
    assert as_document(late) == projected("late", peaks, peaks * 60 / 86_400, END_MS)


def as_document(row: Row) -> dict[str, Any]:
    return row.asDict() | {"season": list(row["season"])}


def test_no_usage_makes_no_projection(spark: SparkSession) -> None:
    assert projections(daily_traffic(usage(spark, []), END_DAY), END_DAY).collect() == []


@pytest.mark.parametrize("end_day", [END_DAY, END_DAY + 3])
def test_the_season_is_of_the_right_weekday(spark: SparkSession, end_day: int) -> None:
    """1970-01-01 was a Thursday: day 3 of a week that begins on Monday."""
    rows = [
        ("a", minute(-day, 1), 60_000 if (END_DAY - day + 3) % 7 == 6 else 600_000)
        for day in range(1, 57)
    ]
    [row] = projections(daily_traffic(usage(spark, rows), END_DAY), end_day).collect()
    season = list(row["season"])
    assert min(season) == season[6] < 300
    assert all(1_000 < factor < 1_300 for factor in season[:6])

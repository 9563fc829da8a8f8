"""Usage in the lake becomes a report of tenants with an unusual day."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from opentalos.model.errors import ConfigError
from opentalos.pipelines.lake.periods.whole_days import DAY_MS
from opentalos.pipelines.lake.tables import HourTable
from opentalos.pipelines.metering.usage_table import SCHEMA
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.traffic.anomaly_pipeline import TRAFFIC_ANOMALIES, UnusualTraffic

FIRST = 20_454  # 2026-01-01
DAYS = 22


def row(tenant: str, day: int, size: int) -> dict[str, Any]:
    return {
        "tenant": tenant, "topic": f"u-{tenant}", "name": "t", "partition": 0,
        "minute": datetime.fromtimestamp(day * DAY_MS / 1000, UTC), "records": 1,
        "bytes": size, "first_offset": day, "next_offset": day + 1,
    }  # fmt: skip


def lake(home: Path) -> Path:
    """Three weeks of a steady tenant, of one that rises on the last day, and of one that ends."""
    table = HourTable(home, "usage", SCHEMA)
    for day in range(FIRST, FIRST + DAYS):
        last = day == FIRST + DAYS - 1
        rows = [row("CLsteady", day, 6 << 30), row("CLrising", day, (18 if last else 6) << 30)]
        if not last:
            rows.append(row("CLended", day, 6 << 30))
        table.replace(day * DAY_MS, pa.Table.from_pylist(rows, SCHEMA))
    rows = [row("CLsteady", FIRST + DAYS, 1)]  # the day that has begun does not count
    table.replace((FIRST + DAYS) * DAY_MS, pa.Table.from_pylist(rows, SCHEMA))
    return home


def run(spark: SparkSession, home: Path, **options: str) -> str:
    given = {name.replace("_", "-"): text for name, text in options.items()}
    settings = PipelineSettings(url="http://127.0.0.1:1", key="a:b", home=home, options=given)
    TRAFFIC_ANOMALIES.run(spark, settings)
    return (home / "anomalies" / "latest.txt").read_text()


def test_unusual_days_are_reported_with_their_numbers(spark: SparkSession, tmp_path: Path) -> None:
    lines = run(spark, lake(tmp_path)).splitlines()
    assert lines[0] == "2026-01-22: 4 anomalies"
    assert [line.split(": ")[0] for line in lines[1:]] == ["tenant CLended"] * 2 + [
        "tenant CLrising"
    ] * 2
    assert "busiest minute 0.0 B/s, expected 102.4 MiB/s: level 102.4 MiB/s" in lines[1]
    assert "busiest minute 307.2 MiB/s, expected 102.4 MiB/s" in lines[3]
    assert "204.8 MiB/s above, allowed are 0.0 B/s (4 spreads of 0.0 B/s)" in lines[3]
    with pytest.raises(UnusualTraffic, match="unusual traffic on 2026-01-22: tenant CLended"):
        run(spark, tmp_path, on_anomaly="fail")
    assert run(spark, tmp_path, factor="4", history_days="21").count("CLrising") == 0


def test_without_usage_nothing_is_judged(spark: SparkSession, tmp_path: Path) -> None:
    assert "no whole day" in run(spark, tmp_path, on_anomaly="fail")


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("spreads", "-1", "spreads is '-1': give a number of at least 0"),
        ("factor", "0.5", "factor is '0.5': give a number of at least 1"),
        ("factor", "nan", "factor is 'nan'"),
        ("on_anomaly", "x", "on-anomaly is 'x': choose report or fail"),
    ],
)
def test_invalid_options_are_explained(
    spark: SparkSession, tmp_path: Path, option: str, value: str, text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        run(spark, tmp_path, **{option: value})

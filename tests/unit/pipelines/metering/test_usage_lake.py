"""Reading usage without Spark: which files are opened, and which rows are found."""

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import Span
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.periods.month import Month
from opentalos.pipelines.lake.tables import HOUR_MS, HourTable
from opentalos.pipelines.metering.usage_lake import UsageLake
from opentalos.pipelines.metering.usage_table import LAYOUT, SCHEMA

MONTH = Month(2026, 3)
SPAN = Span(MONTH.begin_ms, MONTH.end_ms)


def row(at_ms: int, topic: str = "a", partition: int = 0) -> dict[str, object]:
    minute = datetime.fromtimestamp(at_ms / 1000, UTC)
    place = {"tenant": f"t-{topic}", "topic": topic, "name": topic, "partition": partition}
    amounts = {"records": 2, "bytes": 20, "first_offset": 0, "next_offset": 2}
    return {**place, "minute": minute, **amounts}


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    """The first and the last hour of a month, and damaged files before and after it."""
    hours = HourTable(tmp_path, "usage", SCHEMA)
    last_ms = MONTH.end_ms - HOUR_MS
    for hour_ms in (MONTH.begin_ms - HOUR_MS, MONTH.begin_ms, last_ms, MONTH.end_ms):
        rows = [row(hour_ms, "b", 1), row(hour_ms, "b"), row(hour_ms, "a")]
        hours.replace(hour_ms, pa.Table.from_pylist(rows, SCHEMA))
    for hour_ms in (MONTH.begin_ms - HOUR_MS, MONTH.end_ms):
        (file,) = hours.files([hour_ms])
        file.write_bytes(b"damaged")
    return pipeline_table(tmp_path, "", LAYOUT)


def test_an_export_of_a_month_opens_no_file_of_another(table: LakeTable) -> None:
    with UsageLake(table, SPAN) as usage:
        rows = pa.concat_tables(usage.rows()).to_pylist()
    assert [(row["topic"], row["partition"]) for row in rows] == [
        *[("a", 0)] * 2, *[("b", 0)] * 2, *[("b", 1)] * 2
    ]  # fmt: skip
    assert {row["minute"].month for row in rows} == {3}
    with UsageLake(table) as whole, pytest.raises(duckdb.Error):
        list(whole.rows())  # the damaged files are of this table


def test_an_export_of_a_tenant_has_its_rows_only(table: LakeTable) -> None:
    with UsageLake(table, SPAN, tenant="t-a") as usage:
        rows = pa.concat_tables(usage.rows()).to_pylist()
    assert [row["tenant"] for row in rows] == ["t-a", "t-a"]

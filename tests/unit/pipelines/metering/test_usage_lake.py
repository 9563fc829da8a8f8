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
from opentalos.pipelines.metering import usage_lake
from opentalos.pipelines.metering.usage_lake import Chain, MinuteUse, UsageLake
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


def test_the_minutes_of_a_partition_are_one_chain_also_after_the_files_are_gone(
    table: LakeTable, tmp_path: Path
) -> None:
    minutes = [MinuteUse(at_ms, 2, 20, 0, 2) for at_ms in (MONTH.begin_ms, MONTH.end_ms - HOUR_MS)]
    with UsageLake(table, SPAN, topics=["b"]) as usage:
        chains = usage.chains()
        found = [next(chains)]
        for file in (tmp_path / "lake" / "usage" / ".versions").iterdir():
            file.unlink()
        found += chains
    assert sorted(found) == [Chain("b", 0, "b", minutes), Chain("b", 1, "b", minutes)]


def test_chains_are_whole_however_their_rows_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a partition come in several batches, and partitions share batches and buckets."""
    monkeypatch.setattr(usage_lake, "_ROWS_PER_BATCH", 7)
    monkeypatch.setattr(usage_lake, "_BUCKETS", 2)
    hours, places = HourTable(tmp_path, "usage", SCHEMA), [(t, p) for t in "cab" for p in (1, 0)]
    for hour_ms in range(0, 5 * HOUR_MS, HOUR_MS):
        rows = [row(hour_ms + 60_000 * at, *place) for at in (2, 0, 1) for place in places]
        hours.replace(hour_ms, pa.Table.from_pylist(rows, SCHEMA))
    with UsageLake(pipeline_table(tmp_path, "", LAYOUT)) as usage:
        found = {chain[:3]: [use.minute_ms for use in chain.minutes] for chain in usage.chains()}
    minutes = [HOUR_MS * hour + 60_000 * at for hour in range(5) for at in range(3)]
    assert found == {(topic, partition, topic): minutes for topic, partition in places}


def test_an_empty_table_has_no_chain(tmp_path: Path) -> None:
    with UsageLake(pipeline_table(tmp_path, "", LAYOUT)) as usage:
        assert list(usage.chains()) == []

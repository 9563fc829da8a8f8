"""``talos lake``: upkeep of tables."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from opentalos.cli.commands.pipeline.lake import lake as group
from opentalos.cli.main import talos
from opentalos.model.errors import ConfigError, NotFound
from opentalos.pipelines.lake.lake_table import UNUSED_HOURS, LakeTable
from opentalos.pipelines.lake.layout import TARGET_BYTES, TIME_TYPE, Batch, Layout
from opentalos.pipelines.lake.opening import open_lake_table

HOUR = datetime(2026, 11, 21, 23, tzinfo=UTC)
LAYOUT = Layout(
    "clicks",
    pa.schema(
        [
            pa.field("at", TIME_TYPE, nullable=False),
            pa.field("topic", pa.string(), nullable=False),
        ]
    ),
    "at",
    partition_by=("topic",),
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"delta+file://{tmp_path}/clicks"


@pytest.fixture
def table(url: str) -> LakeTable:
    """Three rows of as many hours, each in its own file, and a file never committed."""
    table = open_lake_table(url, LAYOUT)
    for number in range(3):
        row = {"at": HOUR + timedelta(hours=number), "topic": "shop"}
        rows = pa.Table.from_pylist([row], LAYOUT.schema)
        table.commit(Batch("q", number), list(table.writer().write(rows.to_batches())))
    list(table.writer().write(rows.to_batches()))
    return table


def lake(*argv: str) -> Result:
    return CliRunner().invoke(talos, ["lake", *argv], standalone_mode=False)


def answer(*argv: str) -> dict[str, Any]:
    (found,) = answers(*argv)
    return found


def answers(*argv: str) -> list[dict[str, Any]]:
    result = lake(*argv, "--format", "json")
    assert result.exception is None, result.exception
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_show_has_the_columns_and_the_size(url: str, table: LakeTable) -> None:
    found = answer("show", url)
    size = found.pop("bytes")
    assert found.pop("bytes_per_file") == size // 3
    assert found == {
        "name": "clicks", "format": "Delta", "version": 3,
        "columns": ["at timestamp[us, tz=UTC]", "topic string"],
        "time_column": "at", "partitioned_by": ["topic"], "files": 3, "rows": 3,
        "first": "2026-11-21T23:00:00+00:00", "last": "2026-11-22T01:00:00+00:00",
    }  # fmt: skip
    assert "partitioned by: topic" in " ".join(lake("show", url).stdout.split())


def test_compact_replaces_small_files_once(url: str, table: LakeTable) -> None:
    assert "3 files of clicks replaced by larger ones" in lake("compact", url).stdout
    assert lake("compact", url, "--target-mib", "512").stdout == "clicks is compact\n"
    assert len(table.files()) == 1


def test_expire_counts_asks_and_removes(url: str, table: LakeTable) -> None:
    argv = ("expire", url, "--before", "2026-11-22T00:59Z")
    text = "1 row of clicks before 2026-11-22T00:00:00+00:00, by at"
    assert lake(*argv, "--dry-run").stdout == f"{text}\n"
    refused = lake(*argv)
    assert f"Remove {text}? Not a terminal; pass --yes to confirm" in str(refused.exception)
    assert table.read().num_rows == 3
    assert lake(*argv, "--yes").stdout == f"{text} removed\n"
    assert table.read().num_rows == 2
    assert answer(*argv, "--yes") == {"name": "clicks", "rows": 0, "dry_run": False}


def test_vacuum_counts_asks_and_deletes(url: str, table: LakeTable, tmp_path: Path) -> None:
    text = "1 file of clicks, unused for 0 hours"
    argv = ("vacuum", url, "--unused-hours", "0")
    assert lake("vacuum", url).stdout == "0 files of clicks, unused for 168 hours\n"
    assert answer(*argv, "--dry-run") == {"name": "clicks", "files": 1, "dry_run": True}
    assert f"Delete {text}? Not a terminal" in str(lake(*argv).exception)
    assert len(list(tmp_path.rglob("*.parquet"))) == 4
    assert lake(*argv, "--yes").stdout == f"{text} deleted\n"
    assert len(list(tmp_path.rglob("*.parquet"))) == 3
    assert table.read().num_rows == 3


def test_a_table_that_is_not_there_is_an_error_and_is_not_created(url: str, tmp_path: Path) -> None:
    for place in (url, str(tmp_path / "none")):
        result = lake("vacuum", place, "--yes")
        assert isinstance(result.exception, NotFound)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_url_of_a_table_is_refused() -> None:
    result = lake("show", "hdfs://namenode:9820/lake/clicks")
    assert isinstance(result.exception, ConfigError)
    assert "write /PATH, delta+file:///PATH" in str(result.exception)


def test_the_options_have_the_defaults_of_the_tables() -> None:
    context = click.Context(group)
    found = {
        option.name: option.default
        for name in ("compact", "vacuum")
        for option in group.get_command(context, name).params  # type: ignore[union-attr]
    }
    assert found["target_mib"] == TARGET_BYTES >> 20
    assert found["unused_hours"] == UNUSED_HOURS


def test_a_table_of_one_machine_is_maintained_too(tmp_path: Path) -> None:
    layout = Layout("visits", LAYOUT.schema, "at")
    table = open_lake_table(str(tmp_path / "visits"), layout)
    rows = pa.Table.from_pylist([{"at": HOUR, "topic": "shop"}], LAYOUT.schema)
    table.commit(Batch("q", 0), list(table.writer().write(rows.to_batches())))
    path = str(tmp_path / "visits")
    assert answer("show", path)["format"] == "Parquet"
    assert lake("compact", path).stdout == "visits is compact\n"
    assert answer("expire", path, "--before", "2026-11-23T00Z", "--yes")["rows"] == 1
    assert answer("vacuum", path, "--unused-hours", "0", "--yes")["files"] == 1


def test_the_tables_of_pipelines_are_listed_with_their_places(tmp_path: Path) -> None:
    assert lake("list", "--home", str(tmp_path), "--format", "json").stdout == ""
    row = {"at": HOUR, "topic": "shop"}
    rows = pa.Table.from_pylist([row], LAYOUT.schema)
    for home, place in (("", tmp_path / "lake"), ("delta+file://", tmp_path / "delta")):
        for name in ("usage", "side/metering"):
            layout = Layout(name, LAYOUT.schema, LAYOUT.time)
            table = open_lake_table(f"{home}{place}/{name}", layout)
            table.commit(Batch("q", 0), list(table.writer().write(rows.to_batches())))
    here = answers("list", "--home", str(tmp_path))
    assert [(item["table"], item["pipeline"], item["rows"]) for item in here] == [
        (f"{tmp_path}/lake/usage", "metering", 1),
        (f"{tmp_path}/lake/side/metering", "metering", 1),
    ]
    there = answers("list", "--lake", f"delta+file://{tmp_path}/delta")
    assert [item["table"].rpartition("/delta/")[2] for item in there] == ["usage", "side/metering"]
    assert answer("show", there[0]["table"])["rows"] == 1

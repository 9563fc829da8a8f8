"""An hour's file is the old or the new one for every reader, whatever happens in between."""

import os
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opentalos.model.errors import NotFound
from opentalos.pipelines.lake.tables import HOUR_MS, SWEEP_EVERY, HourTable, hour_of

HOUR = 1_764_000_000_000 // HOUR_MS * HOUR_MS
SCHEMA = pa.schema([("name", pa.string()), ("count", pa.int64())])


def rows(*counts: int) -> pa.Table:
    return pa.table({"name": [f"n{count}" for count in counts], "count": list(counts)}, SCHEMA)


def counts(table: HourTable, hour: int = HOUR) -> list[int]:
    found: list[int] = table.load(hour).column("count").to_pylist()
    return found


@pytest.fixture
def table(tmp_path: Path) -> HourTable:
    return HourTable(tmp_path, "usage", SCHEMA)


def test_an_hour_is_replaced_as_a_whole(table: HourTable) -> None:
    table.replace(HOUR, rows(1, 2))
    table.replace(HOUR + HOUR_MS, rows(9))
    table.replace(HOUR, rows(3))
    assert counts(table) == [3]
    assert table.hours() == [HOUR, HOUR + HOUR_MS]


def test_an_hour_without_rows_stays_an_hour(table: HourTable) -> None:
    table.replace(HOUR, rows())
    assert (counts(table), table.hours()) == ([], [HOUR])


def test_people_read_the_folder_with_a_glob(table: HourTable, tmp_path: Path) -> None:
    for count in (1, 2, 3):
        table.replace(HOUR, rows(count))
    table.replace(HOUR + HOUR_MS, rows(10))
    assert sorted(path.name for path in table.folder.glob("*.parquet")) == [
        "2025-11-24T16.parquet",
        "2025-11-24T17.parquet",
    ]
    glob = f"{tmp_path}/lake/usage/*.parquet"
    found = duckdb.connect().execute(f"SELECT sum(count) FROM '{glob}'").fetchall()
    assert found == [(13,)]


def test_a_reader_continues_with_the_file_that_it_resolved(table: HourTable) -> None:
    table.replace(HOUR, rows(1))
    resolved = table.files()
    table.replace(HOUR, rows(2))
    assert pq.read_table(resolved[0]).column("count").to_pylist() == [1]
    assert pq.read_table(table.files()[0]).column("count").to_pylist() == [2]


STEPS = ("open", "write", "fsync", "utime", "symlink", "rename", "folder")


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_leaves_the_old_file_or_the_new_one(
    table: HourTable, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    table.replace(HOUR, rows(1))
    with monkeypatch.context() as broken:
        break_at(broken, step)
        with pytest.raises(KeyboardInterrupt):
            table.replace(HOUR, rows(2))
    assert counts(table) == ([2] if step == "folder" else [1])
    assert counts(HourTable(table.folder.parent.parent, "usage", SCHEMA)) == counts(table)
    table.replace(HOUR, rows(3))
    assert counts(table) == [3]


def break_at(patch: pytest.MonkeyPatch, step: str) -> None:
    def crash(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    places: dict[str, tuple[Any, str]] = {
        "open": (Path, "open"),
        "write": (pq.ParquetWriter, "write_table"),
        "fsync": (os, "fsync"),
        "utime": (os, "utime"),
        "symlink": (Path, "symlink_to"),
        "rename": (os, "replace"),
    }
    if step in places:
        patch.setattr(*places[step], crash)
        return
    real, seen = os.fsync, list[int]()

    def third(number: int) -> None:  # of the file, of its folder, of the links' folder
        seen.append(number)
        if len(seen) == 3:
            raise KeyboardInterrupt
        real(number)

    patch.setattr(os, "fsync", third)


def test_superseded_files_go_after_their_grace_and_only_they(tmp_path: Path) -> None:
    table = HourTable(tmp_path, "usage", SCHEMA, grace_s=60)
    table.replace(HOUR + HOUR_MS, rows(7))
    first = table.files()[0]
    old = time.time() - 3600
    os.utime(first, (old, old))  # written long ago, and still the current one
    for count in range(SWEEP_EVERY):
        table.replace(HOUR, rows(count))
    versions = list((table.folder / ".versions").iterdir())
    assert len(versions) == SWEEP_EVERY + 1  # superseded within the grace
    for version in versions:
        os.utime(version, (old, old))
    table.replace(HOUR + HOUR_MS, rows(8))  # its grace begins now
    for count in range(SWEEP_EVERY):
        table.replace(HOUR, rows(count))
    left = list((table.folder / ".versions").iterdir())
    assert first in left
    assert len(left) <= SWEEP_EVERY + 3
    assert (counts(table), counts(table, HOUR + HOUR_MS)) == ([SWEEP_EVERY - 1], [8])


def test_leftovers_of_crashes_are_removed(tmp_path: Path) -> None:
    table = HourTable(tmp_path, "usage", SCHEMA, grace_s=0)
    versions = table.folder / ".versions"
    versions.mkdir(parents=True)
    (versions / "2025-11-24T16-dead.parquet").write_bytes(b"half")
    (versions / "2025-11-24T16-dead.link").symlink_to("nowhere")
    os.utime(versions / "2025-11-24T16-dead.parquet", (1, 1))
    os.utime(versions / "2025-11-24T16-dead.link", (1, 1), follow_symlinks=False)
    table.replace(HOUR, rows(1))
    assert [path.name for path in versions.iterdir()] == [table.files()[0].name]


def test_rows_of_other_columns_are_refused_and_the_old_ones_stay(table: HourTable) -> None:
    table.replace(HOUR, rows(1))
    with pytest.raises(KeyError):
        table.replace(HOUR, pa.table({"name": ["x"]}))
    with pytest.raises(pa.ArrowInvalid):
        table.replace(HOUR, pa.table({"name": ["x"], "count": ["many"]}))
    assert counts(table) == [1]


def test_columns_take_the_types_and_order_of_the_schema(table: HourTable) -> None:
    table.replace(HOUR, pa.table({"count": pa.array([5], pa.int32()), "name": ["x"]}))
    assert table.load(HOUR).schema == SCHEMA


def test_a_time_within_an_hour_is_refused(table: HourTable) -> None:
    with pytest.raises(ValueError, match="not the start of an hour"):
        table.replace(HOUR + 1, rows(1))
    assert hour_of(HOUR) == hour_of(HOUR + 1) == hour_of(HOUR + HOUR_MS - 1) == HOUR


def test_a_table_that_is_not_there_is_empty_or_unknown(tmp_path: Path) -> None:
    known, unknown = HourTable(tmp_path, "a", SCHEMA), HourTable(tmp_path, "a")
    assert (known.hours(), known.files(), counts(known)) == ([], [], [])
    with pytest.raises(NotFound, match="a has no file"):
        unknown.load(HOUR)


def test_other_files_in_the_folder_are_not_hours(table: HourTable) -> None:
    table.replace(HOUR, rows(1))
    for name in ("notes.txt", "x.parquet", "2025-13-01T00.parquet"):
        (table.folder / name).write_text("")
    assert table.hours() == [HOUR]


def test_marks_change_together_with_the_rows(table: HourTable) -> None:
    assert table.marks(HOUR) == {}
    table.replace(HOUR, rows(1), {"batch": "7"})
    assert (table.marks(HOUR), counts(table)) == ({"batch": "7"}, [1])
    table.replace(HOUR, rows(2))
    assert (table.marks(HOUR), counts(table)) == ({}, [2])


def test_a_removed_hour_can_be_read_to_the_end_until_a_sweep(table: HourTable) -> None:
    table.replace(HOUR, rows(1))
    table.replace(HOUR + HOUR_MS, rows(2))
    (path,) = table.files([HOUR])
    table.remove(HOUR)
    assert table.hours() == [HOUR + HOUR_MS]
    assert table.sweep(60) == 0
    assert pq.ParquetFile(path).read().num_rows == 1
    assert table.sweep(0) == 1
    assert not path.exists()
    assert counts(table, HOUR + HOUR_MS) == [2]

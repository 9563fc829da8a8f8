"""Stores of files: what tasks have written is published as a whole, once, and by its owner only."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from opentalos.model.errors import LeaseNotHeld
from opentalos.pipelines.lake.layout import DataFile
from opentalos.pipelines.lake.opening import open_existing
from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.lake.written_rows import RowsMissing
from opentalos.pipelines.olap.delta_store import DeltaStore
from opentalos.pipelines.olap.file_store import FileStore
from opentalos.pipelines.olap.opening import open_olap
from opentalos.pipelines.olap.parquet_store import ParquetStore
from opentalos.pipelines.olap.store import (
    Group,
    Measure,
    OlapStore,
    Selection,
    Writer,
)
from opentalos.pipelines.olap.table_set import HOUR, TABLE_NAME, TableSet, hour_text

START = 1_764_000_000_000 // HOUR_MS * HOUR_MS
NEXT = START + HOUR_MS
TIMED = ("time", pa.timestamp("us", "UTC"))
SET = TableSet(
    "traffic",
    {
        "puts": pa.schema([TIMED, ("topic", pa.string()), ("total", pa.float64())]),
        "gets": pa.schema([TIMED, ("topic", pa.string()), ("count", pa.int64())]),
    },
)
TOTAL, COUNT = Measure("sum", "sum", "total"), Measure("sum", "sum", "count")


def opened(kind: str, folder: Path) -> FileStore:
    url = folder.as_uri() if kind == "parquet" else f"delta+{folder.as_uri()}"
    store: OlapStore = open_olap(folder, url, (SET,))
    assert isinstance(store, FileStore)
    return store


@pytest.fixture(params=["parquet", "delta"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(kind: str, tmp_path: Path) -> FileStore:
    return opened(kind, tmp_path)


def batch(*rows: tuple[int, str, str, float]) -> pa.RecordBatch:
    """Rows of the set: time, table, topic and amount."""
    schema = SET.layout().schema
    found = [
        {
            "time": time_ms * 1000, "topic": topic, TABLE_NAME: table,
            HOUR: hour_text(time_ms - time_ms % HOUR_MS),
            "total" if table == "puts" else "count": amount,
        }
        for time_ms, table, topic, amount in rows
    ]  # fmt: skip
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.RecordBatch.from_pylist(found, nullable)


def written(store: FileStore, *rows: tuple[int, str, str, float]) -> list[DataFile]:
    """As a task does, whose rows are sorted by hour and table."""
    return list(store.writer(SET).write([batch(row) for row in rows]))


def sums(store: OlapStore, table: str, measure: Measure = TOTAL) -> dict[str, Any]:
    rows = Selection(table=table, start_ms=START, end_ms=NEXT + HOUR_MS)
    found = store.query(Group(rows=rows, by=("topic",), measures=(measure,)))
    return {row["topic"]: row["sum"] for row in found.to_pylist()}


FIRST = (
    (START, "gets", "a", 5),
    (START, "puts", "a", 1.0),
    (START + 9, "puts", "b", 2.0),
    (NEXT, "puts", "a", 4.0),
)


def publish(
    store: FileStore, files: Sequence[DataFile], *hours: int, writer: Writer | None = None
) -> None:
    store.publish(SET, hours or (START, NEXT), files, writer or Writer("q", 0, batch=0))


def test_files_are_rows_once_they_are_published(
    store: FileStore, kind: str, tmp_path: Path
) -> None:
    first = written(store, *FIRST)
    assert len(first) == 3  # an hour of a table each
    lost = written(store, *FIRST)  # an attempt whose result nobody got
    publish(store, first)
    assert sums(store, "puts") == {"a": 5.0, "b": 2.0}
    assert sums(store, "gets", COUNT) == {"a": 5}
    others = opened(kind, tmp_path)
    assert sums(others, "puts") == {"a": 5.0, "b": 2.0}
    assert {info.name: info.columns for info in others.tables()} == {
        "gets": ("topic", "count"),
        "puts": ("topic", "total"),
    }
    root = Path(store.writer(SET).root.removeprefix("file://"))
    assert all((root / file.path).exists() for file in lost)


def test_an_hour_is_replaced_in_all_tables(store: FileStore) -> None:
    publish(store, written(store, *FIRST))
    again = written(store, (START, "puts", "c", 8.0))
    publish(store, again, START, writer=Writer("q", 0, batch=1))
    assert sums(store, "puts") == {"a": 4.0, "c": 8.0}
    assert sums(store, "gets", COUNT) == {}
    publish(store, [], START, NEXT, writer=Writer("q", 0, batch=2))
    assert sums(store, "puts") == {}


def test_a_repeated_batch_changes_nothing(store: FileStore) -> None:
    files = written(store, *FIRST)
    for _ in range(2):
        publish(store, files)
        assert sums(store, "puts") == {"a": 5.0, "b": 2.0}


def test_a_late_run_publishes_nothing(store: FileStore) -> None:
    publish(store, written(store, *FIRST), writer=Writer("q", 2, batch=4))
    late = written(store, (START, "puts", "late", 64.0))
    with pytest.raises(LeaseNotHeld, match="epoch 1: a run with epoch 2"):
        publish(store, late, START, writer=Writer("q", 1, batch=5))
    assert sums(store, "puts") == {"a": 5.0, "b": 2.0}


def test_a_file_that_the_driver_does_not_see_is_not_published(store: FileStore) -> None:
    publish(store, written(store, (START, "puts", "a", 1.0)))
    files = written(store, (START, "puts", "a", 2.0))
    root = Path(store.writer(SET).root.removeprefix("file://"))
    (root / files[0].path).unlink()
    with pytest.raises(RowsMissing, match="has 0 of 1 rows"):
        publish(store, files, START, writer=Writer("q", 0, batch=1))
    assert sums(store, "puts") == {"a": 1.0}


def test_a_folder_takes_one_file_for_an_hour_of_a_table(tmp_path: Path) -> None:
    store = ParquetStore(tmp_path)
    with pytest.raises(ValueError, match="two files have rows of one hour of a table"):
        publish(store, written(store, FIRST[1]) + written(store, FIRST[1]))
    assert store.tables() == []


def test_several_tasks_may_write_an_hour_of_a_table_of_delta(tmp_path: Path) -> None:
    store = DeltaStore(f"delta+{tmp_path.as_uri()}", (SET,))
    publish(store, written(store, FIRST[1]) + written(store, FIRST[2]))
    assert sums(store, "puts") == {"a": 1.0, "b": 2.0}


def test_rollups_in_the_format_of_delta_are_kept_up_as_tables_of_the_lake(tmp_path: Path) -> None:
    url = f"delta+{tmp_path.as_uri()}"
    store = DeltaStore(url, (SET,))
    publish(store, written(store, *FIRST) + written(store, *FIRST[1:3]))
    table, _ = open_existing(f"{url}/rollups/{SET.name}")
    assert table.compact() == 2  # of one hour of one table
    assert sums(store, "puts") == {"a": 6.0, "b": 4.0}
    assert table.expire(NEXT) == 5
    assert sums(store, "puts") == {"a": 4.0}
    publish(store, written(store, FIRST[1]), START, writer=Writer("q", 0, batch=1))
    assert sums(store, "puts") == {"a": 5.0}

"""Readers of Delta need nothing of ours: the format alone says what the rows of a table are."""

import json
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import TIME_TYPE, Batch, Layout
from opentalos.pipelines.lake.opening import open_lake_table

HOUR = datetime(2026, 11, 21, 23, tzinfo=UTC)
LAYOUT = Layout(
    "pages",
    pa.schema(
        [
            pa.field("at", TIME_TYPE, nullable=False),
            pa.field("page", pa.string(), nullable=False),
        ]
    ),
    "at",
    ("at", "page"),
)


def rows(*pages: str) -> pa.Table:
    return pa.Table.from_pylist([{"at": HOUR, "page": page} for page in pages], LAYOUT.schema)


def filled(folder: Path) -> LakeTable:
    table = open_lake_table(f"delta+file://{folder}", LAYOUT)
    table.commit(Batch("q", 0), list(table.writer().write(rows("a", "b").to_batches())))
    list(table.writer().write(rows("ghost").to_batches()))  # never committed
    table.merge(Batch("m", 4), rows("b", "c"))
    table.compact()
    return table


def test_duckdb_reads_the_table_as_delta_describes_it(tmp_path: Path) -> None:
    filled(tmp_path)
    pages = DeltaTable(str(tmp_path)).to_pyarrow_dataset()
    with duckdb.connect(":memory:") as engine:
        engine.register("pages", pages)
        found = engine.sql("SELECT page FROM pages ORDER BY page").fetchall()
    assert found == [("a",), ("b",), ("c",)]


def test_any_reader_of_delta_can_read_it_and_sees_the_batches(tmp_path: Path) -> None:
    filled(tmp_path)
    table = DeltaTable(str(tmp_path))
    assert table.protocol().min_reader_version == 1
    assert table.metadata().name == "pages"
    assert [table.transaction_version(query) for query in ("q", "m", "other")] == [0, 4, None]


def test_an_older_version_stays_readable_until_a_vacuum(tmp_path: Path) -> None:
    table = filled(tmp_path)
    assert DeltaTable(str(tmp_path), version=1).count() == 2
    assert table.vacuum() == 0
    assert DeltaTable(str(tmp_path), version=1).count() == 2


def test_a_commit_is_one_entry_of_the_log_with_its_transaction(tmp_path: Path) -> None:
    filled(tmp_path)
    text = (tmp_path / "_delta_log" / f"{1:020}.json").read_text()
    actions = [json.loads(line) for line in text.splitlines()]
    (transaction,) = [action["txn"] for action in actions if "txn" in action]
    assert (transaction["appId"], transaction["version"]) == ("q", 0)
    (added,) = [action["add"] for action in actions if "add" in action]
    stats = json.loads(added["stats"])
    assert stats["numRecords"] == 2
    assert stats["minValues"] == stats["maxValues"] == {"at": "2026-11-21T23:00:00.000000Z"}

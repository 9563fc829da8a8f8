"""Readers of Delta need nothing of ours: the format alone says what the rows of a table are."""

import json
import threading
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from opentalos.model.errors import StoreUnavailable
from opentalos.pipelines.lake.delta.table import CHECKPOINT_COMMITS
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


def test_a_reader_opens_fewer_commits_than_the_interval_of_checkpoints(
    tmp_path: Path,
) -> None:
    table = open_lake_table(f"delta+file://{tmp_path}", LAYOUT)
    for number in range(2 * CHECKPOINT_COMMITS):
        table.commit(Batch("q", number), list(table.writer().write(rows("a").to_batches())))
    last = json.loads((tmp_path / "_delta_log" / "_last_checkpoint").read_text())
    assert 2 * CHECKPOINT_COMMITS - last["version"] < CHECKPOINT_COMMITS
    assert DeltaTable(str(tmp_path)).transaction_version("q") == 2 * CHECKPOINT_COMMITS - 1
    assert table.summary().rows == 2 * CHECKPOINT_COMMITS


def test_a_store_that_never_answers_fails_the_batch_which_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_lake_table(f"delta+file://{tmp_path}", LAYOUT)
    files = list(table.writer().write(rows("a").to_batches()))
    answer = threading.Event()
    with monkeypatch.context() as hanging:
        hanging.setattr("opentalos.pipelines.lake.delta.table.OPEN_S", 0.01)
        hanging.setattr("deltalake.DeltaTable", lambda *_, **__: answer.wait())
        with pytest.raises(StoreUnavailable, match="no answer within"):
            table.commit(Batch("q", 0), files)
    answer.set()
    assert table.commit(Batch("q", 0), files)
    assert table.summary().rows == 1

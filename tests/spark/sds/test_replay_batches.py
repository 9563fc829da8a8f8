"""Batches of a stream's messages become the table's state, also repeated and torn ones."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.driver_results import results_limited
from tests.unit.sdk.stream_model import BEGIN_MS, SCHEMA, ModelTable, sorted_rows, typed

from opentalos.model.change import Change, ChangeKind, StreamView
from opentalos.model.datum import DataType
from opentalos.model.errors import ConfigError, NotSupported
from opentalos.model.table import KeyPart, TableSchema
from opentalos.pipelines.lake.tables import PartTable
from opentalos.pipelines.runtime.causes import cause_of
from opentalos.pipelines.tables.pipeline import ReplayWriter
from opentalos.pipelines.tables.replay_state import SPLIT_ROWS, Replay
from opentalos.sdk.core.table.values import typed_columns
from opentalos.wire.sds.change import encode_change

VIEWS = [StreamView.MUTATE_LOG, StreamView.RECORD_IMAGE]
MESSAGES = pa.schema([("value", pa.binary()), ("sequence_number", pa.string())])


class Replaying:
    """A model of a table, and the lake that its stream's batches go to."""

    def __init__(self, spark: SparkSession, home: Path, view: StreamView) -> None:
        self.table = ModelTable()
        self.replay = Replay("users", SCHEMA, view, parts=4)
        self.writer = ReplayWriter(self.replay, home)
        self.lake = self.replay.lake(home)
        self._spark = spark
        self._batches = 0

    def take(self, changes: Sequence[Change], *, table: str = "users") -> None:
        """One batch."""
        rows = [
            {
                "value": encode_change(self.replay.view, table, change, None),
                "sequence_number": str(change.sequence),
            }
            for change in changes
        ]
        messages = self._spark.createDataFrame(pa.Table.from_pylist(rows, MESSAGES))
        self.writer(messages, self._batches)
        self._batches += 1

    def state(self) -> list[Any]:
        """What every reader of the files sees, but the state's own columns."""
        files = map(pq.ParquetFile, self.lake.files())
        found = [row for file in files for row in file.read().to_pylist()]
        return sorted_rows(
            {n: v for n, v in row.items() if v is not None and not n.startswith("_")}
            for row in found
            if not row["_deleted"]
        )  # fmt: skip


def some_changes(table: ModelTable) -> list[Change]:
    begin = len(table.changes)
    for number in range(12):
        table.put(f"row-{number}", n=number, text=f"text {number}")
    for number in range(0, 12, 2):
        table.increment(f"row-{number}", 100 - number)
    for number in range(0, 12, 3):
        table.remove(f"row-{number}")
    table.remove("row-1", "text")
    table.put("row-3", n=-3)
    return table.changes[begin:]


@pytest.mark.parametrize("view", VIEWS)
def test_batches_with_resends_become_the_table(
    spark: SparkSession, tmp_path: Path, view: StreamView
) -> None:
    bench = Replaying(spark, tmp_path, view)
    first = some_changes(bench.table)
    bench.take(first)
    assert bench.state() == bench.table.records()
    bench.take(first)  # the whole batch again
    assert bench.state() == bench.table.records()
    second = some_changes(bench.table)
    bench.take([*first[5:], *second[:20]])  # a resend that continues with new changes
    bench.take([*second[10:], *second[3:]])
    assert bench.state() == bench.table.records()
    bench.take(second, table="other")
    assert bench.state() == bench.table.records()


class Died(Exception):
    """The driver is gone at this point."""


@pytest.mark.parametrize("view", VIEWS)
def test_a_batch_that_died_between_two_parts_ends_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, view: StreamView
) -> None:
    bench = Replaying(spark, tmp_path, view)
    bench.take(some_changes(bench.table))
    changes = some_changes(bench.table)
    real, calls = PartTable.publish, list[int]()

    def dies(lake: PartTable, part: int, version: str) -> None:
        calls.append(part)
        if len(calls) == 3:
            raise Died
        real(lake, part, version)

    monkeypatch.setattr(PartTable, "publish", dies)
    with pytest.raises(Died):
        bench.take(changes)
    monkeypatch.undo()
    bench.take(changes)
    assert bench.state() == bench.table.records()


def test_a_missing_change_ends_the_run_and_leaves_the_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    bench = Replaying(spark, tmp_path, StreamView.MUTATE_LOG)
    bench.take([bench.table.put("a", n=1)])
    before = bench.state()
    bench.table.put("a", n=2)
    with pytest.raises(PySparkException) as caught:
        bench.take([bench.table.put("a", n=3)])
    cause = cause_of(caught.value)
    assert cause.kind == "ChangeMissing"
    assert "change 3 of row id='a'" in cause.text
    assert bench.state() == before


def test_amounts_that_do_not_fit_end_the_run_or_are_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    bench = Replaying(spark, tmp_path, StreamView.MUTATE_LOG)
    bench.take([bench.table.put("a", n=1)])
    wrong = bench.table.increment("a", 2)._replace(amounts=typed(n=5))
    with pytest.raises(PySparkException) as caught:
        bench.take([wrong])
    assert cause_of(caught.value).kind == "ChangeContradicts"
    bench.writer = ReplayWriter(replace(bench.replay, strict=False), tmp_path)
    bench.take([wrong, wrong])
    bench.take([bench.table.increment("a", 1)])
    assert bench.state() == [{"id": "a", "n": 4}]
    files = map(pq.ParquetFile, bench.lake.files())
    assert [row["_misfits"] for file in files for row in file.read().to_pylist()] == [1]


class Gone(Exception):
    """The table is not what it was."""


def test_a_batch_is_not_taken_if_the_table_is_another_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    bench = Replaying(spark, tmp_path, StreamView.MUTATE_LOG)
    bench.take([bench.table.put("a", n=1)])

    def gone() -> TableSchema:
        raise Gone

    bench.writer = ReplayWriter(bench.replay, tmp_path, gone)
    with pytest.raises(Gone):
        bench.take([bench.table.put("a", n=2)])
    assert bench.state() == [{"id": "a", "n": 1}]


def test_a_state_keeps_every_type(spark: SparkSession, tmp_path: Path) -> None:
    types = {f"c{kind.value}": kind for kind in DataType}
    schema = TableSchema(primary=(KeyPart("c4"),), attributes=types)
    values: dict[str, Any] = {
        "c1": True, "c2": -1, "c3": 2, "c4": 3, "c5": -4, "c6": 0.5, "c7": 0.1, "c8": "é",
        "c9": b"\x00", "c10": b"\xff", "c100": (False, True), "c101": (1, 2), "c102": (3,),
        "c103": (4,), "c104": (5, 6), "c105": (0.5,), "c106": (0.1, 0.2), "c107": ("a", "b"),
        "c108": (b"a",),
    }  # fmt: skip
    assert values.keys() == types.keys()
    columns = typed_columns(types, values)
    key = {"c4": columns.pop("c4")}
    change = Change(ChangeKind.PUT, key, columns, {}, columns, False, BEGIN_MS, 1)
    replay = Replay("users", schema, StreamView.MUTATE_LOG)
    message = {"value": encode_change(replay.view, "users", change, None), "sequence_number": "1"}
    messages = spark.createDataFrame(pa.Table.from_pylist([message], MESSAGES))
    writer = ReplayWriter(replay, tmp_path)
    writer(messages, 0)
    writer(messages, 0)
    (file,) = replay.lake(tmp_path).files()
    (row,) = pq.ParquetFile(file).read().to_pylist()
    found = {name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}
    assert {name: found[name] for name in values} == values


def test_what_cannot_be_replayed_is_refused() -> None:
    with pytest.raises(NotSupported, match="KEYS_ONLY"):
        Replay("users", SCHEMA, StreamView.KEYS_ONLY)
    taken = TableSchema(
        primary=SCHEMA.primary, attributes={**SCHEMA.attributes, "_deleted": DataType.BOOL}
    )
    with pytest.raises(ConfigError, match="_deleted"):
        Replay("users", taken, StreamView.MUTATE_LOG)


def test_no_row_of_the_state_passes_through_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    bench = Replaying(spark, tmp_path, StreamView.MUTATE_LOG)
    text = "x" * 2_000
    for number in range(2_000):  # 4 MB
        bench.table.put(f"row-{number}", n=number, text=text)
    with results_limited(spark, "1m"):
        with pytest.raises(Py4JJavaError, match="maxResultSize"):  # the limit counts rows
            spark.range(2_000).selectExpr(f"'{text}' AS text").toArrow()
        bench.take(bench.table.changes)
        bench.take([bench.table.put("row-0", n=-1)])
    assert bench.state() == bench.table.records()


def test_only_rows_that_change_become_python_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    table, replay = ModelTable(), Replay("users", SCHEMA, StreamView.MUTATE_LOG, parts=1)
    for number in range(SPLIT_ROWS + 1):
        table.put(f"row-{number}", n=number)

    def message(change: Change) -> dict[str, Any]:
        value = encode_change(replay.view, "users", change, None)
        return {"value": value, "sequence_number": str(change.sequence)}

    first = pa.Table.from_pylist([message(change) for change in table.changes], MESSAGES)
    stored = replay.joined(0, replay.state_schema().empty_table(), first)
    real, restored = Replay.states, list[int]()

    def counted(replay: Replay, rows: pa.Table) -> Any:
        restored.append(rows.num_rows)
        return real(replay, rows)

    monkeypatch.setattr(Replay, "states", counted)
    last = [message(table.put(name, n=-1)) for name in ("row-7", f"row-{SPLIT_ROWS}")]
    found = replay.joined(0, stored, pa.Table.from_pylist(last, MESSAGES))
    assert restored == [2]
    values = {row["id"]: row["n"] for row in found.select(["id", "n"]).to_pylist()}
    assert found.num_rows == len(values) == SPLIT_ROWS + 1
    assert values == {record["id"]: record["n"] for record in table.records()}

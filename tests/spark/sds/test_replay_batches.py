"""Batches of a stream's messages become the table's state, also repeated and torn ones."""

from collections.abc import Iterable, Iterator, Sequence
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
from opentalos.model.errors import ConfigError, LeaseNotHeld, NotSupported
from opentalos.model.table import KeyPart, TableSchema
from opentalos.pipelines.lake.tables import PartTable
from opentalos.pipelines.runtime.causes import cause_of
from opentalos.pipelines.session import set_epoch
from opentalos.pipelines.tables.pipeline import ReplayWriter
from opentalos.pipelines.tables.replay_state import (
    GROUP_BYTES,
    SPLIT_ROWS,
    Replay,
    staged,
    stored_pieces,
)
from opentalos.sdk.core.table.values import typed_columns
from opentalos.wire.sds.change import encode_change

VIEWS = [StreamView.MUTATE_LOG, StreamView.RECORD_IMAGE]
MESSAGES = pa.schema([("value", pa.binary()), ("sequence_number", pa.string())])


def message(replay: Replay, change: Change, table: str = "users") -> dict[str, Any]:
    value = encode_change(replay.view, table, change, None)
    return {"value": value, "sequence_number": str(change.sequence)}


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
        rows = [message(self.replay, change, table) for change in changes]
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


def test_only_rows_that_change_become_python_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, replay = ModelTable(), Replay("users", SCHEMA, StreamView.MUTATE_LOG, parts=1)
    for number in range(2 * SPLIT_ROWS + 1):
        table.put(f"row-{number}", n=number)

    def joined(stored: Iterable[pa.Table], changes: Sequence[Change]) -> Iterator[pa.Table]:
        messages = [message(replay, change) for change in changes]
        return replay.joined(0, stored, pa.Table.from_pylist(messages, MESSAGES))

    lake = replay.lake(tmp_path)
    version = staged(lake, 0, joined([], table.changes)).column("version")[0].as_py()
    lake.publish(0, version)
    (file,) = lake.files()
    real, restored = Replay.states, list[int]()

    def counted(replay: Replay, rows: pa.Table) -> Any:
        restored.append(rows.num_rows)
        return real(replay, rows)

    monkeypatch.setattr(Replay, "states", counted)
    last = [table.put(name, n=-1) for name in ("row-7", f"row-{2 * SPLIT_ROWS}")]
    taken = list[int]()

    def pieces() -> Iterator[pa.Table]:
        for piece in stored_pieces(file):
            taken.append(piece.num_rows)
            yield piece

    found = joined(pieces(), last)
    first = next(found)
    assert len(taken) == 1
    assert first.num_rows == taken[0] - 1
    rows = pa.concat_tables([first, *found])
    assert max(taken) <= SPLIT_ROWS
    assert sum(taken) == 2 * SPLIT_ROWS + 1
    assert restored == [1, 1]
    values = {row["id"]: row["n"] for row in rows.select(["id", "n"]).to_pylist()}
    assert rows.num_rows == len(values) == 2 * SPLIT_ROWS + 1
    assert values == {record["id"]: record["n"] for record in table.records()}


def test_a_part_is_written_in_bounded_row_groups(tmp_path: Path) -> None:
    replay = Replay("users", SCHEMA, StreamView.MUTATE_LOG, parts=1)
    table = ModelTable()
    text = "x" * 1_000
    for number in range(300):
        table.put(f"row-{number}", n=number, text=f"{number} {text}")
    messages = [message(replay, change) for change in table.changes]
    (piece,) = replay.joined(0, [], pa.Table.from_pylist(messages, MESSAGES))
    many = (GROUP_BYTES // piece.nbytes + 1) * 2
    lake = replay.lake(tmp_path)
    lake.publish(0, staged(lake, 0, [piece] * many).column("version")[0].as_py())
    (file,) = lake.files()
    metadata = pq.read_metadata(file)
    assert metadata.num_rows == 300 * many
    assert metadata.num_row_groups >= 2
    pieces = list(stored_pieces(file))
    assert sum(piece.num_rows for piece in pieces) == 300 * many


def test_zeros_of_both_signs_are_one_key() -> None:
    schema = TableSchema(
        primary=(KeyPart("at"), KeyPart("of")),
        attributes={"at": DataType.DOUBLE, "of": DataType.STRING, "n": DataType.INT64},
    )
    replay = Replay("users", schema, StreamView.MUTATE_LOG, parts=1)

    def joined(stored: Iterable[pa.Table], at: float, of: str, n: int) -> pa.Table:
        key = typed_columns(schema.attributes, {"at": at, "of": of})
        columns = typed_columns(schema.attributes, {"n": n})
        change = Change(ChangeKind.PUT, key, columns, {}, columns, False, BEGIN_MS + n, n)
        messages = pa.Table.from_pylist([message(replay, change)], MESSAGES)
        return pa.concat_tables(replay.joined(0, stored, messages))

    first = joined([], 0.0, "a", 1)
    both = joined([first], 0.5, "b", 1)  # each of its values is in another key, too
    mixed = joined([both], 0.5, "a", 1)
    found = joined([mixed], -0.0, "a", 2)
    rows = {(row["at"], row["of"]): row["n"] for row in found.to_pylist()}
    assert rows == {(0.0, "a"): 2, (0.5, "a"): 1, (0.5, "b"): 1}
    assert found.num_rows == 3


def test_a_run_that_was_replaced_publishes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    bench = Replaying(spark, tmp_path, StreamView.MUTATE_LOG)
    try:
        set_epoch(spark, 2)
        bench.take([bench.table.put("a", n=1)])
        late = bench.table.put("a", n=2)
        set_epoch(spark, 1)
        with pytest.raises(LeaseNotHeld, match="the state of users under epoch 1: a run with epo"):
            bench.take([late])
        assert bench.state() == [{"id": "a", "n": 1}]
        set_epoch(spark, 3)
        bench.take([late])
        assert bench.state() == bench.table.records()
    finally:
        set_epoch(spark, 0)

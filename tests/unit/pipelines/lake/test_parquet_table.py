"""What only the Parquet home of a lake table does; tests/contract/lake has the rest."""

import fcntl
import json
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opentalos.model.errors import ConfigError, NotFound, OutcomeUnknown, StoreUnavailable
from opentalos.pipelines.lake import tables
from opentalos.pipelines.lake.folder_writers import QUERIES_MAX
from opentalos.pipelines.lake.layout import TIME_TYPE, Batch, Layout, Seen, Span
from opentalos.pipelines.lake.opening import open_existing
from opentalos.pipelines.lake.parquet_table import ParquetTable
from opentalos.pipelines.lake.tables import HOUR_MS, HourTable

LAYOUT = Layout("t", pa.schema([pa.field("at", TIME_TYPE, nullable=False)]), "at", ("at",))
HOUR = datetime(2026, 11, 21, 23, tzinfo=UTC)
HOUR_0_MS = int(HOUR.timestamp()) * 1000


@pytest.fixture
def table(tmp_path: Path) -> ParquetTable:
    return ParquetTable(tmp_path / "t", LAYOUT)


def rows(*hours: int) -> pa.Table:
    return pa.Table.from_pylist(
        [{"at": HOUR + timedelta(hours=hour)} for hour in hours], LAYOUT.schema
    )


def append(table: ParquetTable, number: int, given: pa.Table, query: str = "q") -> bool:
    return table.commit(Batch(query, number), list(table.writer().write(given.to_batches())))


def test_a_batch_that_a_crash_cut_between_two_hours_is_completed(
    table: ParquetTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = HourTable.replace, list[int]()

    def dies(hours: HourTable, part: int, *more: object) -> None:
        calls.append(part)
        if len(calls) == 2:
            raise OSError("no space left on device")
        real(hours, part, *more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(tables.PartTable, "replace", dies)
        with pytest.raises(OutcomeUnknown, match="no space left on device; repeat the batch"):
            append(table, 0, rows(0, 1))
    assert table.read().num_rows == 1
    assert append(table, 0, rows(0, 1))
    assert sorted(table.read().to_pylist(), key=str) == rows(0, 1).to_pylist()


def test_a_replacement_that_a_crash_cut_between_two_hours_is_completed(
    table: ParquetTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(table, 0, rows(0, 1))
    spans = tuple(Span(HOUR_0_MS + hour * HOUR_MS, HOUR_0_MS + (hour + 1) * HOUR_MS)
                  for hour in (0, 1))  # fmt: skip
    real, calls = HourTable.replace, list[int]()

    def dies(hours: HourTable, part: int, *more: object) -> None:
        calls.append(part)
        if len(calls) == 2:
            raise OSError("no space left on device")
        real(hours, part, *more)  # type: ignore[arg-type]

    def swap() -> bool:
        seen = Seen(spans, tuple(table.files(*spans)))
        files = [file for hour in (0, 1)
                 for file in table.writer().write(rows(hour, hour).to_batches())]  # fmt: skip
        return table.replace(Batch("q", 1), seen, files)

    with monkeypatch.context() as patch:
        patch.setattr(tables.PartTable, "replace", dies)
        with pytest.raises(OutcomeUnknown, match="no space left on device; repeat the batch"):
            swap()
    assert table.read().num_rows == 3
    assert swap()
    assert table.read().num_rows == 4
    assert not swap()


def test_a_second_writer_fails_clearly(table: ParquetTable, tmp_path: Path) -> None:
    append(table, 0, rows(0))
    with (tmp_path / "t" / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match="another process is writing it"):
            append(table, 1, rows(0))
    assert append(table, 1, rows(0))


def test_hours_written_without_batches_stay_readable(table: ParquetTable, tmp_path: Path) -> None:
    hour_ms = int(HOUR.timestamp()) * 1000
    HourTable(tmp_path, "t", LAYOUT.schema, folder=tmp_path / "t").replace(hour_ms, rows(0))
    assert table.read().num_rows == 1
    assert append(table, 0, rows(0))
    assert table.read().num_rows == 2


def test_people_read_the_folder_with_a_glob(table: ParquetTable, tmp_path: Path) -> None:
    append(table, 0, rows(0, 1))
    names = sorted(path.name for path in (tmp_path / "t").glob("*.parquet"))
    assert names == ["2026-11-21T23.parquet", "2026-11-22T00.parquet"]
    assert all(path.startswith("file:///") for path in table.files())


def test_a_file_names_the_last_batches_of_a_bounded_number_of_queries(
    table: ParquetTable, tmp_path: Path
) -> None:
    for number in range(QUERIES_MAX + 2):
        append(table, number, rows(0), f"query{number}")
    (path,) = (tmp_path / "t").glob("*.parquet")
    metadata = pq.read_schema(path).metadata
    assert len([name for name in metadata if name.startswith(b"opentalos.batch.")]) == QUERIES_MAX
    assert not append(table, QUERIES_MAX + 1, rows(0), f"query{QUERIES_MAX + 1}")


def test_epochs_are_kept_for_a_bounded_number_of_queries(
    table: ParquetTable, tmp_path: Path
) -> None:
    for number in range(QUERIES_MAX + 2):
        table.merge(Batch(f"query{number}", 0, epoch=number + 1), rows(0))
    kept = json.loads((tmp_path / "t" / ".epochs.json").read_text())
    assert len(kept) == QUERIES_MAX
    assert kept[f"query{QUERIES_MAX + 1}"] == QUERIES_MAX + 2


@pytest.mark.parametrize("text", ["", "[]", '{"q": "x"}'])
def test_a_damaged_note_of_epochs_is_named_and_nothing_is_written(
    table: ParquetTable, tmp_path: Path, text: str
) -> None:
    table.merge(Batch("q", 0, epoch=1), rows(0))
    (tmp_path / "t" / ".epochs.json").write_text(text)
    with pytest.raises(ConfigError, match=r"delete .*epochs\.json once no other run writes"):
        table.merge(Batch("q", 1, epoch=2), rows(1))
    assert table.read().num_rows == 1


def test_a_writer_can_be_sent_to_another_process(table: ParquetTable) -> None:
    writer = pickle.loads(pickle.dumps(table.writer()))
    assert writer.local
    assert table.commit(Batch("q", 0), list(writer.write(rows(0).to_batches())))


def test_an_expired_hour_leaves_no_file_after_a_vacuum(table: ParquetTable, tmp_path: Path) -> None:
    append(table, 0, rows(0))
    assert table.expire(int(HOUR.timestamp()) * 1000 + HOUR_MS) == 1
    assert table.vacuum(0) == 1
    assert list((tmp_path / "t").rglob("*.parquet")) == []


def test_a_partitioned_table_is_refused_with_the_url_to_use(tmp_path: Path) -> None:
    schema = LAYOUT.schema.append(pa.field("topic", pa.string(), nullable=False))
    with pytest.raises(ConfigError, match=r"is partitioned by topic, .*use a URL such as delta\+"):
        ParquetTable(tmp_path / "t", Layout("t", schema, "at", partition_by=("topic",)))


def test_a_table_that_a_pipeline_writes_hour_by_hour_is_not_opened_for_upkeep(
    tmp_path: Path,
) -> None:
    HourTable(tmp_path, "usage", LAYOUT.schema).replace(int(HOUR.timestamp()) * 1000, rows(0))
    with pytest.raises(NotFound, match="it has no file that a batch wrote"):
        open_existing(str(tmp_path / "lake" / "usage"))

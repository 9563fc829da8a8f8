"""Rows that replace those of the files in which they were seen, on every home."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from tests.contract.lake.openers import LAYOUT, Home

from opentalos.model.errors import BadRequest, StoreUnavailable
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import Batch, DataFile, Seen, Span

HOUR = datetime(2026, 11, 21, 23, tzinfo=UTC)
LATER = HOUR + timedelta(hours=5)
HOUR_MS = 3_600_000


@pytest.fixture
def table(home: Home) -> LakeTable:
    """An hour with two files of a row, and a later hour."""
    table = home.open()
    for number, (page, at) in enumerate((("a", HOUR), ("b", HOUR), ("z", LATER))):
        table.commit(Batch("q", number), written(table, at, page))
    return table


def written(table: LakeTable, at: datetime, *pages: str) -> list[DataFile]:
    rows = [{"minute": at, "page": page, "visits": 1, "by_country": []} for page in pages]
    return list(table.writer().write(pa.Table.from_pylist(rows, LAYOUT.schema).to_batches()))


def span_of(at: datetime) -> Span:
    start_ms = int(at.timestamp()) * 1000
    return Span(start_ms, start_ms + HOUR_MS)


def seen(table: LakeTable, *hours: datetime) -> Seen:
    spans = tuple(map(span_of, hours))
    return Seen(spans, tuple(table.files(*spans)))


def pages(table: LakeTable) -> list[str]:
    return sorted(table.read().column("page").to_pylist())


def test_an_hour_is_replaced_once_and_as_a_whole(table: LakeTable, home: Home) -> None:
    old = seen(table, HOUR)
    assert table.replace(Batch("q", 3), old, written(table, HOUR, "c", "d"))
    again = home.open()  # as after a restart of the driver
    assert not again.replace(Batch("q", 3), seen(again, HOUR), written(again, HOUR, "e"))
    assert pages(home.open()) == ["c", "d", "z"]


def test_hours_far_apart_are_replaced_by_one_batch(table: LakeTable) -> None:
    old = seen(table, HOUR, LATER)
    files = [*written(table, HOUR, "c"), *written(table, LATER, "y", "z")]
    assert table.replace(Batch("q", 3), old, files)
    assert pages(table) == ["c", "y", "z"]


def test_an_hour_without_rows_gets_some(table: LakeTable) -> None:
    between = HOUR + timedelta(hours=2)
    assert not seen(table, between).files
    assert table.replace(Batch("q", 3), seen(table, between), written(table, between, "m"))
    assert pages(table) == ["a", "b", "m", "z"]


def test_what_another_writer_added_meanwhile_is_not_lost(table: LakeTable, home: Home) -> None:
    old, files = seen(table, HOUR), written(table, HOUR, "c")
    other = home.open()
    other.commit(Batch("other", 0), written(other, HOUR, "x"))
    with pytest.raises(StoreUnavailable, match="another writer changed it; repeat the batch"):
        table.replace(Batch("q", 3), old, files)
    assert pages(table) == ["a", "b", "x", "z"]
    assert table.replace(Batch("q", 3), seen(table, HOUR), written(table, HOUR, "c", "x"))
    assert pages(home.open()) == ["c", "x", "z"]


def test_nothing_to_write_changes_nothing(table: LakeTable) -> None:
    assert not table.replace(Batch("q", 3), seen(table, HOUR), [])
    assert pages(table) == ["a", "b", "z"]


def test_only_files_of_the_spans_are_named(table: LakeTable) -> None:
    assert len(table.files(span_of(LATER))) == 1
    both = table.files(span_of(HOUR), span_of(LATER))
    assert both == table.files()
    assert table.files(span_of(HOUR + timedelta(hours=1))) == []


def test_a_scan_reads_the_files_of_spans_piece_by_piece(table: LakeTable, home: Home) -> None:
    found = table.scan(span_of(HOUR))
    assert sorted(found.to_table(columns=["page"]).column("page").to_pylist()) == ["a", "b"]
    assert table.scan().count_rows() == 3
    assert table.scan(span_of(HOUR + timedelta(hours=1))).to_table().num_rows == 0
    snapshot = table.scan()
    table.replace(Batch("q", 3), seen(table, HOUR), written(table, HOUR, "c"))
    assert sorted(snapshot.to_table().column("page").to_pylist()) == ["a", "b", "z"]
    assert sorted(home.open().scan().to_table().column("page").to_pylist()) == ["c", "z"]


def test_a_replaced_file_is_there_until_a_vacuum(table: LakeTable) -> None:
    old = table.scan(span_of(HOUR))
    table.replace(Batch("q", 3), seen(table, HOUR), written(table, HOUR, "c"))
    assert table.vacuum() == 0
    assert old.count_rows() == 2
    assert table.vacuum(0) > 0
    assert pages(table) == ["c", "z"]


def test_rows_of_an_hour_that_was_not_seen_are_refused_by_hourly_files(home: Home) -> None:
    table = home.open()
    table.commit(Batch("q", 0), written(table, HOUR, "a"))
    files = written(table, LATER, "x")
    if table.summary().version is None:  # Parquet: the file of that hour would be replaced
        with pytest.raises(BadRequest, match="other hours than those that it replaces"):
            table.replace(Batch("q", 1), seen(table, HOUR), files)
        assert pages(table) == ["a"]
    else:
        assert table.replace(Batch("q", 1), seen(table, HOUR), files)
        assert pages(table) == ["x"]

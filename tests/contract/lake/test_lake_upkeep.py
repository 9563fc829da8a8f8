"""What an operator does with a table, in every home."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from tests.contract.lake.openers import LAYOUT, Home

from opentalos.model.errors import ConfigError, NotFound
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import TIME_TYPE, Batch, Layout
from opentalos.pipelines.lake.opening import open_existing

HOUR = datetime(2026, 11, 21, 23, tzinfo=UTC)
AN_HOUR = timedelta(hours=1)
AFTER_MS = int((HOUR + AN_HOUR).timestamp()) * 1000


def visits(*pages: str, at: datetime = HOUR) -> pa.Table:
    rows = [{"minute": at, "page": page, "visits": 1, "by_country": []} for page in pages]
    return pa.Table.from_pylist(rows, LAYOUT.schema)


def append(table: LakeTable, number: int, rows: pa.Table) -> None:
    assert table.commit(Batch("q", number), list(table.writer().write(rows.to_batches())))


def test_a_summary_has_the_size_and_the_times_of_a_table(home: Home) -> None:
    table = home.open()
    empty = table.summary()
    assert (empty.files, empty.rows, empty.size_bytes) == (0, 0, 0)
    assert (empty.first_us, empty.last_us) == (None, None)
    last = HOUR + AN_HOUR + timedelta(microseconds=7)
    append(table, 0, visits("a", "b"))
    append(table, 1, visits("c", at=last))
    found = table.summary()
    assert (found.files, found.rows) == (2, 3)
    assert found.size_bytes > 0
    assert found.first_us == int(HOUR.timestamp()) * 1_000_000
    assert found.last_us == AFTER_MS * 1000 + 7
    assert (found.version is None) == (home.url.startswith("/"))


def test_a_dry_run_counts_and_deletes_nothing(home: Home) -> None:
    table = home.open()
    append(table, 0, visits("a", "b"))
    append(table, 1, visits("c", at=HOUR + AN_HOUR))
    list(table.writer().write(visits("ghost").to_batches()))  # never committed
    assert table.expire(AFTER_MS, dry_run=True) == 2
    assert table.vacuum(0, dry_run=True) == 1
    assert table.read().num_rows == 3
    assert table.vacuum(0) == 1
    assert table.expire(AFTER_MS) == 2
    assert table.expire(AFTER_MS, dry_run=True) == 0


def test_files_that_have_the_target_size_are_not_rewritten(home: Home) -> None:
    table = home.open()
    for number in range(3):
        append(table, number, visits(f"page{number}", at=HOUR + number * AN_HOUR))
    before = sorted(table.files())
    assert table.compact(target_bytes=1) == 0
    assert sorted(table.files()) == before
    assert table.compact() == (0 if home.url.startswith("/") else 3)
    assert table.read().num_rows == 3


def test_a_table_can_be_opened_without_knowing_its_columns(home: Home) -> None:
    append(home.open(), 0, visits("a"))
    table, layout = open_existing(home.url, None, home.options)
    assert layout.schema == LAYOUT.schema
    assert (layout.time, layout.key, layout.partition_by) == ("minute", (), ())
    assert table.summary().rows == 1


def test_a_table_of_several_times_knows_by_which_one_rows_expire(home: Home) -> None:
    seen = pa.field("seen", TIME_TYPE, nullable=False)
    schema = pa.schema([seen, *LAYOUT.schema])
    rows = visits("a").append_column(seen, pa.array([0], TIME_TYPE))
    append(home.open(Layout("visits", schema, "minute")), 0, rows)
    _, layout = open_existing(home.url, None, home.options)
    assert layout.time == "minute"
    _, chosen = open_existing(home.url, "seen", home.options)
    assert chosen.time == "seen"
    with pytest.raises(ConfigError, match="needs a column 'page2'"):
        open_existing(home.url, "page2", home.options)


def test_a_place_without_a_table_is_refused_and_stays_empty(home: Home) -> None:
    elsewhere = replace(home, url=f"{home.url}-elsewhere")
    for _ in range(2):
        with pytest.raises(NotFound, match="could not open the table at"):
            open_existing(elsewhere.url, None, elsewhere.options)

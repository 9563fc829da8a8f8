"""Tables with a folder for each value of some columns, in every home of Delta."""

from datetime import UTC, date, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest
from tests.contract.lake.openers import DELTA_HOMES, Home, home_params

from opentalos.model.errors import BadRequest, ConfigError
from opentalos.pipelines.lake.delta.table import DeltaLakeTable
from opentalos.pipelines.lake.file_writer import FILES_OPEN_MAX
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import TIME_TYPE, Batch, DataFile, Layout, Span
from opentalos.pipelines.lake.opening import delta_url, open_existing

pytestmark = pytest.mark.parametrize("home", home_params(*DELTA_HOMES), indirect=True)
DAY = datetime(2026, 11, 21, 23, tzinfo=UTC)
NEXT = DAY + timedelta(hours=1)
NEXT_MS = int(NEXT.timestamp()) * 1000
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("at", TIME_TYPE, nullable=False),
        pa.field("date", pa.date32(), nullable=False),
    ]
)
LAYOUT = Layout("kept", SCHEMA, "at", partition_by=("topic", "date"))
KEYED = Layout("kept", SCHEMA, "at", ("topic", "date", "at", "offset"), ("topic", "date"))


@pytest.fixture
def table(home: Home) -> LakeTable:
    return home.open(LAYOUT)


def rows(topic: str, *offsets: int, at: datetime = DAY) -> pa.Table:
    found = [{"topic": topic, "offset": offset, "at": at, "date": at.date()} for offset in offsets]
    return pa.Table.from_pylist(found, SCHEMA)


def written(table: LakeTable, *parts: pa.Table) -> list[DataFile]:
    return list(table.writer().write(pa.concat_tables(parts).combine_chunks().to_batches()))


def stored(table: LakeTable, span: Span | None = None) -> list[tuple[str, int, date]]:
    found = table.read() if span is None else table.read(span)
    return sorted((row["topic"], row["offset"], row["date"]) for row in found.to_pylist())


def test_a_file_has_the_rows_of_one_topic_and_date(table: LakeTable) -> None:
    files = written(table, rows("a", 0, 1), rows("b", 0), rows("a", 2, at=NEXT), rows("b", 1))
    assert [(file.partition, file.rows) for file in files] == [
        (("a", "2026-11-21"), 2),
        (("b", "2026-11-21"), 2),
        (("a", "2026-11-22"), 1),
    ]
    assert all(file.path.startswith(f"topic={file.partition[0]}/date=") for file in files)
    assert stored(table) == []
    assert table.commit(Batch("q", 0), files)
    assert not table.commit(Batch("q", 0), files)
    first, second = DAY.date(), NEXT.date()
    expected = [
        ("a", 0, first),
        ("a", 1, first),
        ("a", 2, second),
        ("b", 0, first),
        ("b", 1, first),
    ]
    assert stored(table) == expected
    assert stored(table, Span(NEXT_MS, NEXT_MS + 1)) == [("a", 2, second)]
    assert table.read().schema == SCHEMA


def test_a_task_has_a_bounded_number_of_open_files(table: LakeTable) -> None:
    topics = [f"t{number}" for number in range(FILES_OPEN_MAX + 2)]
    batches = [rows(topic, turn).to_batches()[0] for turn in range(2) for topic in topics]
    files = list(table.writer().write(batches))
    assert len(files) > len(topics)  # some were closed, and opened again
    assert table.commit(Batch("q", 0), files)
    assert stored(table) == sorted((topic, at, DAY.date()) for topic in topics for at in range(2))


def test_compaction_stays_within_a_partition(table: LakeTable) -> None:
    for number in range(3):
        table.commit(Batch("q", number), written(table, rows("a", number), rows("b", number)))
    before = stored(table)
    assert len(table.files()) == 6
    assert table.compact() == 6
    assert stored(table) == before
    assert sorted(name.partition("/topic=")[2][0] for name in table.files()) == ["a", "b"]
    assert table.expire(NEXT_MS) == 6
    assert table.vacuum(0) == 8


def test_a_merge_replaces_rows_within_their_partitions(home: Home, table: LakeTable) -> None:
    keyed = home.open(KEYED)
    keyed.commit(Batch("q", 0), written(keyed, rows("a", 0), rows("b", 0)))
    merged = pa.concat_tables([rows("a", 0, 1), rows("a", 0, at=NEXT)])
    assert keyed.merge(Batch("m", 0), merged)
    first, second = DAY.date(), NEXT.date()
    assert stored(table) == [("a", 0, first), ("a", 0, second), ("a", 1, first), ("b", 0, first)]


@pytest.mark.parametrize("topic", ["a/b", "", "ü", "..x/..", "a%20b"])
def test_a_value_that_cannot_be_a_folder_is_refused(table: LakeTable, topic: str) -> None:
    with pytest.raises(BadRequest, match="cannot be a value of its partition column 'topic'"):
        written(table, rows(topic, 0))


def test_a_table_that_is_partitioned_otherwise_is_refused(home: Home, table: LakeTable) -> None:
    assert table.read().num_rows == 0
    with pytest.raises(ConfigError, match="is partitioned by other columns than kept: topic, date"):
        home.open(Layout("kept", SCHEMA, "at"))


def test_its_layout_can_be_read(home: Home, table: LakeTable) -> None:
    table.commit(Batch("q", 0), written(table, rows("a", 0)))
    _, layout = open_existing(home.url, None, home.options)
    assert layout == LAYOUT


def test_files_say_their_partition_by_their_path(table: LakeTable) -> None:
    table.commit(Batch("q", 0), written(table, rows("a", 0, 1), rows("b", 0)))
    names = [name.removeprefix("file://") for name in table.files()]
    if not names[0].startswith("/"):
        return  # DuckDB needs an extension for the others
    with duckdb.connect(":memory:") as engine:
        query = "SELECT topic, count(*) FROM read_parquet(?, hive_partitioning = true) GROUP BY ALL"
        assert sorted(engine.execute(query, [names]).fetchall()) == [("a", 2), ("b", 1)]


def test_a_table_with_an_owner_takes_no_other_writer(home: Home, table: LakeTable) -> None:
    url = f"{delta_url(home.url)}-owned"
    mine = DeltaLakeTable(url, LAYOUT, home.options, owner="q")
    assert not mine.has(Batch("q", 0))
    mine.commit(Batch("q", 1), written(mine, rows("a", 0)))
    again = DeltaLakeTable(url, LAYOUT, home.options, owner="q")
    assert again.has(Batch("q", 0))
    assert again.has(Batch("q", 1))
    assert not again.has(Batch("q", 2))
    with pytest.raises(ConfigError, match="is written by q, not only by r"):
        DeltaLakeTable(url, LAYOUT, home.options, owner="r")
    with pytest.raises(ConfigError, match="is written by any query, not only by q"):
        DeltaLakeTable(delta_url(home.url), LAYOUT, home.options, owner="q")

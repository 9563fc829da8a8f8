"""Every home of a lake table passes these cases."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contract.lake.openers import LAYOUT, Home
from tests.waiting import answering, eventually, limit_s

from opentalos.model.errors import BadRequest, ConfigError, LeaseNotHeld, StoreUnavailable
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import Batch, DataFile, Layout, Span

HOUR = datetime(2026, 11, 21, 23, tzinfo=UTC)
HOUR_MS = int(HOUR.timestamp()) * 1000
AN_HOUR = timedelta(hours=1)


@pytest.fixture
def table(home: Home) -> LakeTable:
    return home.open()


def visits(*pages: str, at: datetime = HOUR, count: int = 1) -> pa.Table:
    rows = [
        {"minute": at, "page": page, "visits": count, "by_country": [("nl", count)]}
        for page in pages
    ]
    return pa.Table.from_pylist(rows, LAYOUT.schema)


def written(table: LakeTable, rows: pa.Table) -> list[DataFile]:
    return list(table.writer().write(rows.to_batches()))


def append(table: LakeTable, number: int, rows: pa.Table, query: str = "q") -> bool:
    return table.commit(Batch(query, number), written(table, rows))


def stored(table: LakeTable, span: Span | None = None) -> list[tuple[str, int]]:
    rows = table.read() if span is None else table.read(span)
    return sorted((row["page"], row["visits"]) for row in rows.to_pylist())


def test_rows_come_back_with_their_types(table: LakeTable) -> None:
    assert table.read().equals(LAYOUT.schema.empty_table())
    assert append(table, 0, visits("a"))
    assert table.read().equals(visits("a"))


def test_files_are_invisible_until_they_are_committed(table: LakeTable, home: Home) -> None:
    files = written(table, visits("a", "b"))
    assert stored(table) == []
    assert [file.rows for file in files] == [2]
    assert table.commit(Batch("q", 0), files)
    assert stored(home.open()) == [("a", 1), ("b", 1)]


def test_a_batch_is_committed_once(table: LakeTable, home: Home) -> None:
    assert append(table, 0, visits("a"))
    assert append(table, 1, visits("b"))
    again = home.open()  # as after a restart of the driver
    assert not append(again, 1, visits("b"))
    assert not append(again, 0, visits("a"))
    assert append(again, 2, visits("c"))
    assert stored(table) == [("a", 1), ("b", 1), ("c", 1)]


def test_batches_of_another_query_are_other_batches(table: LakeTable) -> None:
    assert append(table, 7, visits("a"), "q")
    assert append(table, 0, visits("b"), "r")
    assert not append(table, 7, visits("a"), "q")
    assert stored(table) == [("a", 1), ("b", 1)]


def test_a_batch_without_rows_changes_nothing(table: LakeTable) -> None:
    assert not append(table, 0, visits())
    assert not table.merge(Batch("q", 0), visits())
    assert append(table, 0, visits("a"))


def test_a_batch_may_span_hours(table: LakeTable) -> None:
    both = pa.concat_tables([visits("a"), visits("b", at=HOUR + AN_HOUR)])
    assert append(table, 0, both)
    assert not append(table, 0, both)
    assert stored(table) == [("a", 1), ("b", 1)]


def test_a_read_takes_a_span_of_time(table: LakeTable) -> None:
    append(table, 0, visits("a"))
    append(table, 1, visits("b", at=HOUR + timedelta(minutes=59, seconds=59.999999)))
    append(table, 2, visits("c", at=HOUR + AN_HOUR))
    hour_ms = 3_600_000
    assert stored(table, Span(HOUR_MS, HOUR_MS + hour_ms)) == [("a", 1), ("b", 1)]
    assert stored(table, Span(HOUR_MS + 1, HOUR_MS + hour_ms + 1)) == [("b", 1), ("c", 1)]
    assert stored(table, Span(0, HOUR_MS)) == []


def test_a_run_that_another_one_replaced_is_refused(table: LakeTable, home: Home) -> None:
    """Also one that has its files already, or repeats a batch that was committed."""
    late = home.open()
    assert table.commit(Batch("q", 0, epoch=4), written(table, visits("a")))
    files = written(late, visits("late"))
    assert table.commit(Batch("q", 1, epoch=5), written(table, visits("b")))
    for number in (1, 2):
        with pytest.raises(LeaseNotHeld, match="epoch 4: a run with epoch 5"):
            late.commit(Batch("q", number, epoch=4), files)
    assert not home.open().commit(Batch("q", 1, epoch=6), written(table, visits("b")))
    assert home.open().commit(Batch("q", 2, epoch=6), written(table, visits("c")))
    assert stored(home.open()) == [("a", 1), ("b", 1), ("c", 1)]


def test_merges_of_a_replaced_run_are_refused_and_other_queries_are_not(
    table: LakeTable,
) -> None:
    assert table.merge(Batch("m", 0, epoch=2), visits("a", count=2))
    with pytest.raises(LeaseNotHeld):
        table.merge(Batch("m", 1, epoch=1), visits("a", count=9))
    assert table.merge(Batch("other", 0, epoch=1), visits("b", count=3))
    assert table.merge(Batch("m", 1), visits("a", count=4)), "without a lease, never refused"
    assert stored(table) == [("a", 4), ("b", 3)]


def test_of_two_runs_that_write_at_once_the_later_one_stays(home: Home) -> None:
    """The former commits before or is refused; afterwards it is always refused."""
    home.open()

    def writer(epoch: int, page: str) -> Callable[[LakeTable], bool]:
        def write(table: LakeTable) -> bool:
            def once() -> bool:
                return table.commit(Batch("q", epoch, epoch), written(table, visits(page)))

            try:
                return until_done(once)
            except LeaseNotHeld:
                return False

        return write

    former, later = race([writer(1, "former"), writer(2, "later")], home)
    assert later
    assert stored(home.open()) == [("former", 1)] * former + [("later", 1)]
    with pytest.raises(LeaseNotHeld):
        home.open().commit(Batch("q", 9, 1), written(home.open(), visits("x")))


def test_two_writers_of_one_batch_store_it_once(home: Home) -> None:
    won = race([lambda table: append(table, 5, visits("a")) for _ in range(4)], home)
    assert sorted(won) == [False, False, False, True]
    assert stored(home.open()) == [("a", 1)]


def test_concurrent_writers_of_several_queries_lose_no_row(home: Home) -> None:
    home.open()

    def writer(query: str) -> Callable[[LakeTable], bool]:
        def write(table: LakeTable) -> bool:
            names = [f"{query}{number}" for number in range(3)]
            batches = [
                partial(append, table, *item, query) for item in enumerate(map(visits, names))
            ]
            return all(map(until_done, batches))

        return write

    assert race([writer(query) for query in "xyz"], home) == [True] * 3
    assert stored(home.open()) == [(f"{query}{number}", 1) for query in "xyz" for number in "012"]


def test_concurrent_merges_of_one_key_keep_one_row(home: Home) -> None:
    append(home.open(), 0, visits("a", count=0))

    def writer(query: str, count: int) -> Callable[[LakeTable], bool]:
        return lambda table: table.merge(Batch(query, 0), visits("a", count=count))

    assert race([writer(f"m{count}", count) for count in range(1, 4)], home) == [True] * 3
    ((page, count),) = stored(home.open())
    assert page == "a"
    assert count in (1, 2, 3)


def test_a_merge_replaces_rows_of_the_same_key(table: LakeTable) -> None:
    append(table, 0, visits("a", "b"))
    append(table, 1, visits("a", at=HOUR + AN_HOUR, count=9))
    assert table.merge(Batch("m", 0), visits("b", "c", count=5))
    assert stored(table) == [("a", 1), ("a", 9), ("b", 5), ("c", 5)]
    assert not table.merge(Batch("m", 0), visits("b", "c", count=6))
    assert table.merge(Batch("m", 1), visits("b", count=7))
    assert stored(table) == [("a", 1), ("a", 9), ("b", 7), ("c", 5)]


def test_rows_that_do_not_fit_are_refused_and_change_nothing(table: LakeTable) -> None:
    append(table, 0, visits("a"))
    with pytest.raises(BadRequest, match="same key twice"):
        table.merge(Batch("m", 0), visits("b", "b"))
    with pytest.raises(BadRequest, match="do not fit table visits"):
        table.merge(Batch("m", 0), visits("b").drop_columns(["visits"]))
    with pytest.raises(BadRequest, match="do not fit table visits"):
        written(table, visits("b").drop_columns(["page"]))
    assert stored(table) == [("a", 1)]


def test_a_table_without_a_key_takes_no_merge(home: Home) -> None:
    keyless = Layout(LAYOUT.name, LAYOUT.schema, LAYOUT.time)
    table = home.open(keyless)
    with pytest.raises(BadRequest, match="has no key"):
        table.merge(Batch("m", 0), visits("a"))
    assert append(table, 0, visits("a", "a"))
    assert stored(table) == [("a", 1), ("a", 1)]


def test_compaction_changes_no_row_and_no_reader(table: LakeTable, home: Home) -> None:
    for number in range(4):
        append(table, number, visits(f"page{number}"))
    before, files = stored(table), table.files()
    read_by_path = len(files)
    table.compact()
    assert stored(table) == stored(home.open()) == before
    assert len(table.files()) == 1
    assert len(table.files()) <= read_by_path
    assert not append(table, 3, visits("page3"))
    assert append(table, 4, visits("page4"))
    assert table.compact() in (0, 2)
    assert len(stored(table)) == 5


def test_a_reader_sees_whole_batches_while_others_write(home: Home) -> None:
    home.open()
    stop, torn = threading.Event(), list[int]()

    def read(table: LakeTable) -> bool:
        while not stop.is_set():
            if (count := table.read().num_rows) % 3:
                torn.append(count)
        return True

    def write(table: LakeTable) -> bool:
        try:
            for number in range(6):
                pages = visits(*(f"{number}{page}" for page in "abc"))
                until_done(partial(append, table, number, pages))
                table.compact()
        finally:
            stop.set()
        return True

    assert race([write, read, read], home) == [True] * 3
    assert torn == []
    assert len(stored(home.open())) == 18


def test_rows_of_hours_before_a_time_expire(table: LakeTable, home: Home) -> None:
    both = pa.concat_tables([visits("a", "b"), visits("c", at=HOUR + AN_HOUR)])
    append(table, 0, both)
    assert table.expire(HOUR_MS + 1) == 0
    assert table.expire(HOUR_MS + 3_600_000 + 1) == 2
    assert stored(home.open()) == [("c", 1)]
    assert table.expire(HOUR_MS + 3_600_000 + 1) == 0


def test_files_of_a_writer_that_died_before_its_commit_are_removed_later(
    table: LakeTable, home: Home
) -> None:
    append(table, 0, visits("a"))
    written(table, visits("ghost"))
    again = home.open()
    assert stored(again) == [("a", 1)]
    assert again.vacuum() == 0  # its task may still run
    assert again.vacuum(0) == 1
    assert again.vacuum(0) == 0
    assert append(again, 1, visits("b"))
    assert stored(again) == [("a", 1), ("b", 1)]


def test_a_vacuum_removes_what_was_replaced(table: LakeTable) -> None:
    append(table, 0, visits("a"))
    table.merge(Batch("m", 0), visits("a", count=2))
    assert table.vacuum(0) == 1
    assert stored(table) == [("a", 2)]


def test_many_rows_become_several_files(table: LakeTable) -> None:
    batches = [visits(f"page{number}").to_batches()[0] for number in range(5)]
    files = list(table.writer().write(batches, file_bytes_max=1))
    assert [file.rows for file in files] == [1] * 5
    assert table.commit(Batch("q", 0), files)
    assert len(stored(table)) == 5


def test_a_table_of_other_columns_is_refused(home: Home) -> None:
    append(home.open(), 0, visits("a"))
    other = Layout("visits", LAYOUT.schema.append(pa.field("more", pa.int64())), LAYOUT.time)
    with pytest.raises((ConfigError, BadRequest), match=r"other columns|do not fit"):
        home.open(other).read()


def test_duckdb_reads_the_files_that_the_table_names(table: LakeTable, home: Home) -> None:
    append(table, 0, visits("a", "b"))
    append(table, 1, visits("z", at=HOUR + AN_HOUR))
    table.merge(Batch("m", 0), visits("b", count=4))
    rows = table.read()
    with duckdb.connect(":memory:") as engine:
        engine.register("visits", rows)
        assert engine.sql("SELECT sum(visits) FROM visits").fetchall() == [(6,)]
    paths = table.files(Span(HOUR_MS, HOUR_MS + 1))
    assert len(paths) < len(table.files())
    if paths[0].startswith("file://"):
        names = [path.removeprefix("file://") for path in paths]
        assert sum(pq.ParquetFile(name).metadata.num_rows for name in names) == 2


def race(actions: list[Callable[[LakeTable], bool]], home: Home) -> list[bool]:
    """Each action in a thread with a client of its own, repeated while another one is first."""
    results: dict[int, bool] = {}

    def run(place: int) -> None:
        table = home.open()
        results[place] = until_done(lambda: actions[place](table))

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(limit_s())
    assert len(results) == len(actions), "a writer failed"
    return [results[place] for place in range(len(actions))]


def until_done(action: Callable[[], bool]) -> bool:
    """Repeat it while another writer is first."""
    what = "a writer commits that lost against another one"
    done = eventually(what, answering(lambda: (action(),), StoreUnavailable))
    assert done is not None
    return done[0]

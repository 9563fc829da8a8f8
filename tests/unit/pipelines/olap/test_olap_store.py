"""What becomes of a query before an engine sees it, and of a store that is down."""

import fcntl
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from opentalos.model.errors import BadRequest, ConfigError, LeaseNotHeld, StoreUnavailable
from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.olap.druid_http import DruidHttp
from opentalos.pipelines.olap.druid_store import DruidStore
from opentalos.pipelines.olap.opening import BACKOFF_S_MAX, DOWN_S_MAX, open_olap, when_up
from opentalos.pipelines.olap.parquet_store import ParquetStore
from opentalos.pipelines.olap.rows import json_pieces, need_hour
from opentalos.pipelines.olap.sql import Dialect, statement
from opentalos.pipelines.olap.store import (
    Filter,
    Group,
    Measure,
    Percentile,
    Selection,
    Series,
    TableInfo,
    Top,
    Writer,
)

HOUR = 1_764_000_000_000 // HOUR_MS * HOUR_MS
ALL = Selection(table="t", start_ms=0, end_ms=10)
COLUMNS = ("topic", 'odd" name', "total", "bucket", "count")
TABLE = TableInfo("t", COLUMNS, frozenset(COLUMNS[2:]))
DIALECT = Dialect("ms", "ms >= {}", "ms < {}")
TOTAL = Measure("total", "sum", "total")


def text(query: Any) -> str:
    return statement(query, TABLE, "t", DIALECT).text


def test_names_are_quoted_and_values_are_parameters() -> None:
    rows = Selection(
        table="t", start_ms=5, end_ms=6, filters=(Filter("topic", ("a'b", 7)), Filter("total", ()))
    )
    made = statement(Group(rows=rows, by=('odd" name',), measures=(TOTAL,)), TABLE, "t", DIALECT)
    assert made.text == (
        'SELECT "odd"" name", SUM("total") AS "total" FROM t WHERE ms >= 5 AND ms < 6 '
        'AND "topic" IN (?, ?) AND 1 = 0 GROUP BY "odd"" name" ORDER BY 1 LIMIT 10001'
    )
    assert made.parameters == ("a'b", "7")


def test_the_names_of_answers_are_quoted() -> None:
    made = text(Group(rows=ALL, by=(), measures=(Measure('x", evil', "count"),)))
    assert made.startswith('SELECT COUNT(*) AS "x"", evil" FROM t')


def test_the_largest_are_ordered_by_the_measure_then_by_name() -> None:
    made = text(Top(rows=ALL, by=("topic",), measures=(TOTAL,), limit=3))
    assert made.endswith('GROUP BY "topic" ORDER BY 2 DESC, 1 LIMIT 3')


def test_percentiles_are_grouped_by_bucket() -> None:
    made = text(Percentile(rows=ALL, percents=(50,), by=("topic",), step_ms=60))
    assert made == (
        'SELECT (ms / 60) * 60 AS "time", "topic", "bucket", SUM("count") AS "count" FROM t '
        'WHERE ms >= 0 AND ms < 10 GROUP BY (ms / 60) * 60, "topic", "bucket" '
        "ORDER BY 1, 2, 3 LIMIT 1000001"
    )


@pytest.mark.parametrize(
    ("column", "value", "found"),
    [("topic", 7, "7"), ("total", "7", 7), ("total", "-1", -1), ("total", "1.5", 1.5)],
)
def test_values_take_the_kind_of_their_column(column: str, value: Any, found: Any) -> None:
    rows = replace(ALL, filters=(Filter(column, (value,)),))
    made = statement(Group(rows=rows, by=(), measures=(TOTAL,)), TABLE, "t", DIALECT)
    assert made.parameters == (found,)
    assert type(made.parameters[0]) is type(found)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Selection(table="t", start_ms=5, end_ms=5),
        lambda: Series(rows=ALL, step_ms=0, measures=(TOTAL,)),
        lambda: Percentile(rows=ALL, percents=()),
        lambda: Percentile(rows=ALL, percents=(50, 100.5)),
        lambda: Percentile(rows=ALL, percents=(float("nan"),)),
        lambda: Measure("x", "median", "total"),
        lambda: Measure("x", "count", "total"),
        lambda: Measure("x", "sum"),
        lambda: Measure("x", "max", "total", per="samples"),
    ],
)
def test_a_query_that_means_nothing_is_refused(make: Any) -> None:
    with pytest.raises(BadRequest):
        make()


def hour_rows(*times: int) -> pa.Table:
    time = pa.array(times, pa.timestamp("ms", "UTC"))
    return pa.table({"time": time, "topic": ["ä" * place for place in range(len(times))]})


@pytest.mark.parametrize("times", [(HOUR - 1,), (HOUR, HOUR + HOUR_MS)])
def test_rows_of_another_hour_are_refused(times: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="are outside the hour at"):
        need_hour(hour_rows(*times), HOUR)


def test_rows_of_the_hour_are_taken() -> None:
    for taken in (hour_rows(HOUR, HOUR + HOUR_MS - 1), hour_rows()):
        assert need_hour(taken, HOUR) is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize("bytes_max", [1, 60, 100, 10_000])
def test_pieces_have_every_row_once_within_their_bound(bytes_max: int) -> None:
    rows = hour_rows(*range(HOUR, HOUR + 5))
    pieces = list(json_pieces(rows, bytes_max))
    lines = [json.loads(line) for piece in pieces for line in piece.split("\n")]
    assert [line["__time"] for line in lines] == list(range(HOUR, HOUR + 5))
    assert [line["topic"] for line in lines] == ["ä" * place for place in range(5)]
    assert all(len(piece) <= bytes_max or "\n" not in piece for piece in pieces)
    assert list(json_pieces(hour_rows(), bytes_max)) == []


@pytest.mark.parametrize(
    "url",
    ["druid://", "druid://a:1", "http://a:1,b:2", "druid://a,b", "druid://a:1,b:2,c:3",
     "druid://a:1/x,b:2", "druid://u@a:1,b:2", "druid://:1,:2"],
)  # fmt: skip
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="druid://"):
        DruidHttp(url)


def test_the_store_is_parquet_unless_a_url_is_given(tmp_path: Any) -> None:
    assert isinstance(open_olap(tmp_path), ParquetStore)
    assert isinstance(open_olap(tmp_path, "druid://127.0.0.1:1,127.0.0.1:2"), DruidStore)


def test_an_action_is_retried_with_growing_pauses_while_the_store_is_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pauses, failures = list[float](), iter([StoreUnavailable("down")] * 8)

    def action() -> str:
        for error in failures:
            raise error
        return "done"

    assert when_up("table", action, sleep=pauses.append) == "done"
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    alarms = [text for text in caplog.messages if text.startswith("ALARM olap store unavailable")]
    assert len(alarms) == 8
    assert caplog.messages[-1] == "olap store available again: table=table waited_s=121"


def test_waiting_has_an_end() -> None:
    pauses = list[float]()

    def action() -> None:
        raise StoreUnavailable("down")

    with pytest.raises(StoreUnavailable):
        when_up("table", action, sleep=pauses.append)
    assert DOWN_S_MAX <= sum(pauses) <= DOWN_S_MAX + BACKOFF_S_MAX


def test_what_the_caller_did_wrong_is_not_repeated() -> None:
    def action() -> None:
        raise BadRequest("no")

    with pytest.raises(BadRequest):
        when_up("table", action, sleep=lambda _: pytest.fail("it waited"))


class Answers(BaseHTTPRequestHandler):
    """Answers with the status in the path and says the same text always."""

    def do_GET(self) -> None:
        _, status, text = self.path.split("/")
        self.send_response(int(status))
        self.end_headers()
        self.wfile.write(BODIES[text])

    def log_message(self, *_: Any) -> None:
        """Nothing: a test's output is its own."""


BODIES = {
    "json": b'{"errorMessage": "a long\\n story"}',
    "text": b"<html>",
    "cut": b'{"a":',
    "empty": b"",
}


@pytest.fixture(scope="module")
def http() -> Iterator[DruidHttp]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        place = f"127.0.0.1:{server.server_port}"
        yield DruidHttp(f"druid://{place},{place}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_errors_of_druid_are_translated(http: DruidHttp) -> None:
    assert http.broker("/200/json") == {"errorMessage": "a long\n story"}
    assert http.broker("/200/empty") is None
    with pytest.raises(BadRequest, match=r"rejected the request \(400\): a long story"):
        http.coordinator("/400/json")
    with pytest.raises(StoreUnavailable, match=r"\(503\): <html>"):
        http.broker("/503/text")
    with pytest.raises(StoreUnavailable, match="is unavailable"):
        http.broker("/200/cut")


def test_a_closed_port_is_a_store_that_is_down() -> None:
    store = DruidStore("druid://127.0.0.1:1,127.0.0.1:1")
    with pytest.raises(StoreUnavailable, match="is unavailable"):
        store.replace(HOUR, {"t": hour_rows(HOUR)})
    with pytest.raises(StoreUnavailable):
        store.tables()


def test_a_late_run_replaces_no_hour_below_a_home(tmp_path: Path) -> None:
    store = ParquetStore(tmp_path)
    rows = hour_rows(HOUR)
    store.replace(HOUR, {"t": rows}, Writer("q", 1))
    store.replace(HOUR, {"t": rows}, Writer("q", 2))
    files = sorted((tmp_path / "olap" / "t").rglob("*.parquet"))
    for _ in range(2):
        with pytest.raises(LeaseNotHeld, match="under epoch 1: a run with epoch 2"):
            store.replace(HOUR, {"t": rows.slice(0, 0), "u": rows}, Writer("q", 1))
    assert sorted((tmp_path / "olap" / "t").rglob("*.parquet")) == files
    assert [table.name for table in store.tables()] == ["t"]
    store.replace(HOUR, {"u": rows}, Writer("another query", 1))
    store.replace(HOUR, {"v": rows})  # without a lease


def test_one_process_at_a_time_replaces_hours_below_a_home(tmp_path: Path) -> None:
    store = ParquetStore(tmp_path)
    store.replace(HOUR, {"t": hour_rows(HOUR)})
    with (tmp_path / "olap" / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match="another process is writing it; repeat"):
            store.replace(HOUR, {"t": hour_rows(HOUR)})


def test_druid_is_not_asked_to_change_an_hour_for_a_late_run() -> None:
    asked: list[str] = []

    class Druid(BaseHTTPRequestHandler):
        """Knows no segment, and notes what is to change."""

        def do_GET(self) -> None:
            self._answer(b"[]")

        def do_POST(self) -> None:
            asked.append(self.path)
            self._answer(b"{}")

        def _answer(self, text: bytes) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    def lost() -> None:
        raise LeaseNotHeld("taken over")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Druid)
    threading.Thread(target=server.serve_forever).start()
    try:
        place = f"127.0.0.1:{server.server_port}"
        store = DruidStore(f"druid://{place},{place}")
        rows = hour_rows(HOUR)
        for given in (rows, rows.slice(0, 0)):
            with pytest.raises(LeaseNotHeld, match="taken over"):
                store.replace(HOUR, {"t": given}, Writer("q", 1, lost))
    finally:
        server.shutdown()
        server.server_close()
    assert asked == []


def test_a_store_may_be_in_a_folder_beside_the_home(tmp_path: Path) -> None:
    folder = tmp_path / "two words"
    open_olap(tmp_path / "home", folder.as_uri()).replace(HOUR, {"t": hour_rows(HOUR)})
    assert list((folder / "t").glob("*.parquet"))
    assert [table.name for table in open_olap(tmp_path, folder.as_uri()).tables()] == ["t"]
    for url in ("file://host/path", "file:///", "file://"):
        with pytest.raises(ConfigError, match="write file:///PATH"):
            open_olap(tmp_path, url)

"""``talos query``: series, top values, groups and percentiles of the store."""

import builtins
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from opentalos.cli.main import talos
from opentalos.model.errors import BadRequest, ConfigError, NotFound
from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.olap.parquet_store import ParquetStore

HOUR = 1_764_000_000_000 // HOUR_MS * HOUR_MS
RANGE = ("--since", "2025-11-24T16:00Z", "--until", "2025-11-24T17:00Z")
ROWS = [
    # time, topic, partition, measure, total, samples
    (HOUR, "", -1, "put_bytes", 100.0, 1),
    (HOUR, "orders", 0, "put_bytes", 60.0, 1),
    (HOUR + 10_000, "orders", 0, "put_bytes", 0.1 + 0.2, 2),
    (HOUR, "a\tb", 1, "put_bytes", 40.0, 1),
    (HOUR, "orders", 0, "lane_depth", 7.0, 1),
]


def table(rows: list[tuple[Any, ...]], *names: str) -> pa.Table:
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    made = pa.table(columns)
    time = made.column("time").cast(pa.timestamp("ms", "UTC"))
    return made.set_column(made.schema.names.index("time"), "time", time)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    store = ParquetStore(folder)
    names = ("time", "topic", "partition", "measure", "total", "samples")
    store.replace(HOUR, {"metrics_10s": table(ROWS, *names)})
    sketches = [(HOUR, "put_ms", 5, 90), (HOUR + 10_000, "put_ms", 100, 10)]
    counts = table(sketches, "time", "measure", "bucket", "count")
    store.replace(HOUR, {"metrics_10s_sketches": counts})
    return folder


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(talos, ["query", *arguments, "--home", str(home)])


def lines(home: Path, *arguments: str) -> list[Any]:
    found = run(home, *arguments, *RANGE, "--format", "json")
    assert found.exception is None, found.output
    return [json.loads(line) for line in found.stdout.splitlines()]


def test_a_series_is_shown_by_time(home: Path) -> None:
    asked = ("series", "metrics_10s", "--measure", "put_bytes", "--where", "topic=orders")
    assert lines(home, *asked, "--every", "10s") == [
        {"time": "2025-11-24T16:00:00+00:00", "sum_total": 60.0},
        {"time": "2025-11-24T16:00:10+00:00", "sum_total": 0.1 + 0.2},
    ]
    shown = run(home, *asked, "--every", "10s", *RANGE)
    assert shown.stdout.splitlines() == [
        "TIME                       SUM TOTAL",
        "2025-11-24T16:00:00+00:00  60",
        "2025-11-24T16:00:10+00:00  0.3",
    ]


def test_the_largest_values_are_first(home: Path) -> None:
    asked = ("top", "metrics_10s", "--measure", "put_bytes", "--by", "topic", "--limit", "2")
    assert lines(home, *asked) == [
        {"topic": "", "sum_total": 100.0},
        {"topic": "orders", "sum_total": pytest.approx(60.3)},
    ]


def test_a_group_has_the_requested_values(home: Path) -> None:
    asked = ("group", "metrics_10s", "--by", "measure", "--where", "partition=0")
    more = ("--value", "total/samples", "--value", "max:total", "--value", "count")
    assert lines(home, *asked, *more) == [
        {"measure": "lane_depth", "total_per_samples": 7.0, "max_total": 7.0, "count": 1},
        {"measure": "put_bytes", "total_per_samples": 60.3 / 3, "max_total": 60.0, "count": 2},
    ]


def test_a_repeated_column_is_an_alternative(home: Path) -> None:
    asked = ("group", "metrics_10s", "--where", "topic=orders", "--where", "topic=")
    assert lines(home, *asked, "--value", "count") == [{"count": 4}]


@pytest.mark.parametrize("name", ["metrics_10s", "metrics_10s_sketches"])
def test_percentiles_come_from_the_table_of_sketches(home: Path, name: str) -> None:
    [found] = lines(home, "percentile", name, "-p", "50", "-p", "99.9")
    assert found["count"] == 100
    assert found["p50"] == pytest.approx(1.02**5, rel=0.01)
    assert found["p99.9"] == pytest.approx(1.02**100, rel=0.01)


def test_percentiles_over_time(home: Path) -> None:
    found = lines(home, "percentile", "metrics_10s", "--every", "10s", "-p", "50")
    assert [(item["time"][-14:-6], item["count"]) for item in found] == [
        ("16:00:00", 90),
        ("16:00:10", 10),
    ]


def test_tsv_escapes_line_breaks_and_tabs(home: Path) -> None:
    asked = ("group", "metrics_10s", "--by", "topic", "--where", "partition=1", *RANGE)
    assert run(home, *asked, "--format", "tsv").stdout == "topic\tsum_total\na\\tb\t40.0\n"


def test_tables_are_listed(home: Path, tmp_path: Path) -> None:
    found = run(home, "tables", "--format", "json").stdout.splitlines()
    assert [json.loads(item)["table"] for item in found] == ["metrics_10s", "metrics_10s_sketches"]
    assert run(tmp_path, "tables").output == "no tables\n"


def test_no_rows_are_reported(home: Path) -> None:
    found = run(home, "series", "metrics_10s", "--where", "topic=nothing", *RANGE)
    assert (found.stdout, found.stderr) == ("", "no rows\n")


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (("series", "nothing"), NotFound, "no table 'nothing'"),
        (("group", "metrics_10s", "--by", "colour"), BadRequest, "has no column 'colour'"),
        (
            ("group", "metrics_10s", "--value", "median:total"),
            BadRequest,
            "unknown function 'median'",
        ),
        (("group", "metrics_10s", "--value", "total"), BadRequest, "unknown function 'total'"),
        (("group", "metrics_10s", "--where", "partition=x"), BadRequest, "'x' is not a number"),
        (("series", "metrics_10s", "--since", "1h", "--until", "2h"), BadRequest, "is empty"),
        (("tables", "--olap", "http://x"), ConfigError, "druid://"),
    ],
)
def test_invalid_queries_are_explained(
    home: Path, arguments: tuple[str, ...], error: type[Exception], text: str
) -> None:
    found = run(home, *arguments)
    assert isinstance(found.exception, error)
    assert text in str(found.exception)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("group", "metrics_10s", "--where", "topic"), "is not COLUMN=VALUE"),
        (("series", "metrics_10s", "--every", "soon"), "is not a valid duration"),
        (("series", "metrics_10s", "--every", "0s"), "at least 1s"),
        (("top", "metrics_10s"), "missing --by"),
        (("percentile", "metrics_10s", "-p", "101"), "0<=x<=100"),
    ],
)
def test_wrong_usage_is_explained(home: Path, arguments: tuple[str, ...], text: str) -> None:
    found = run(home, *arguments)
    assert found.exit_code == 2
    assert text in found.output


def test_without_the_extra_there_is_one_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.split(".")[0] == "duckdb":
            raise ModuleNotFoundError("no duckdb", name="duckdb")
        return real(name, *rest)

    for name in [module for module in sys.modules if module.startswith("opentalos.pipelines.olap")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    found = run(home, "tables")
    assert isinstance(found.exception, ConfigError)
    assert "pip install 'opentalos[query]'" in str(found.exception)


def test_an_answer_is_drawn_beside_its_rows(home: Path, tmp_path: Path) -> None:
    chart = tmp_path / "chart.svg"
    asked = ("series", "metrics_10s", "--measure", "put_bytes", "--by", "topic", "--every", "10s")
    found = run(home, *asked, *RANGE, "--plot", str(chart))
    assert found.exception is None, found.output
    assert found.stdout.startswith("TIME")
    drawn = chart.read_text()
    for text in ("put_bytes: sum of total by topic", "orders", "bytes per 10 s", "(empty)"):
        assert text in drawn


@pytest.mark.parametrize("command", ["top", "group", "percentile"])
def test_every_query_can_be_drawn(home: Path, tmp_path: Path, command: str) -> None:
    chart = tmp_path / "chart.png"
    found = run(home, command, "metrics_10s", "--by", "measure", *RANGE, "--plot", str(chart))
    assert found.exception is None, found.output
    assert chart.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("chart.pdf", "'chart.pdf' must end in .png or .svg"),
        ("nowhere/x.svg", "there is no folder 'nowhere'"),
    ],
)
def test_a_file_that_cannot_be_drawn_is_rejected_before_the_query(
    home: Path, file: str, text: str
) -> None:
    found = run(home, "series", "nothing", *RANGE, "--plot", file)
    assert found.exit_code == 2
    assert text in " ".join(found.output.split())

"""Charts as files: an SVG has the texts and the series, and needs no display."""

import builtins
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from opentalos.cli.output.chart.content import NAN, Chart, Curve, Panel
from opentalos.cli.output.chart.drawing import check_drawable, save_chart, short
from opentalos.model.errors import ConfigError

START = 1_764_000_000_000
SVG = "{http://www.w3.org/2000/svg}"


def over_time(*curves: Curve, unit: str = "", per: str = "", left_out: int = 0) -> Chart:
    times = tuple(START + 60_000 * number for number in range(len(curves[0].values)))
    panel = Panel(label="sum of total", unit=unit, per=per, curves=curves, left_out=left_out)
    return Chart(title="a title", subtitle="below", legend="topic", times=times, panels=(panel,))


def drawn(chart: Chart, folder: Path) -> ElementTree.Element:
    path = folder / "chart.svg"
    save_chart(chart, path)
    return ElementTree.parse(path).getroot()


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


def points(root: ElementTree.Element, name: str) -> list[tuple[str, float, float]]:
    """The path of a series: command, x and y, which grows downwards."""
    [group] = [node for node in root.iter(f"{SVG}g") if node.get("id") == name]
    path = group.find(f".//{SVG}path")
    assert path is not None
    found = re.findall(r"([ML]) ([\d.]+) ([\d.]+)", path.get("d", ""))
    return [(command, float(x), float(y)) for command, x, y in found]


def test_a_time_series_is_drawn_on_a_time_axis(tmp_path: Path) -> None:
    chart = over_time(
        Curve("orders", (1.0, 2.0, 3.0)),
        Curve("_hidden $x$", (3.0, 1.0, 0.0)),
        unit="",
        per="1 min",
    )
    root = drawn(chart, tmp_path)
    found = texts(root)
    for text in (
        "a title",
        "below",
        "topic",
        "orders",
        "_hidden $x$",
        "UTC",
        "sum of total, per 1 min",
    ):
        assert text in found
    assert any(re.fullmatch(r"16:\d\d", text) for text in found)
    rising, falling = points(root, "series-0-0"), points(root, "series-0-1")
    assert [command for command, _, _ in rising] == ["M", "L", "L"]
    assert [x for _, x, _ in rising] == sorted(x for _, x, _ in rising)
    assert rising[0][2] > rising[1][2] > rising[2][2]
    assert falling[0][2] < falling[1][2] < falling[2][2]
    assert rising[2][2] == pytest.approx(falling[0][2])


def test_a_gap_interrupts_the_line(tmp_path: Path) -> None:
    root = drawn(over_time(Curve("a", (1.0, 2.0, NAN, 2.0, 1.0))), tmp_path)
    assert [command for command, _, _ in points(root, "series-0-0")] == ["M", "L", "M", "L"]


@pytest.mark.parametrize(
    ("unit", "per", "value", "label"),
    [
        ("bytes", "10 s", 3 << 20, "sum of total, MiB per 10 s"),
        ("bytes", "", 100.0, "sum of total, bytes"),
        ("ms", "", 250.0, "sum of total, ms"),
        ("ms", "", 90_000.0, "sum of total, s"),
        ("", "", 5.0, "sum of total"),
    ],
)
def test_the_axis_has_a_unit_that_fits(
    tmp_path: Path, unit: str, per: str, value: float, label: str
) -> None:
    root = drawn(over_time(Curve("a", (value, value)), unit=unit, per=per), tmp_path)
    assert label in texts(root)


def test_names_are_drawn_as_bars(tmp_path: Path) -> None:
    panel = Panel(label="count", unit="", curves=(Curve("count", (10.0, 2.0)),))
    chart = Chart(title="t", subtitle="s", legend="", names=("first", "second"), panels=(panel,))
    root = drawn(chart, tmp_path)
    assert {"first", "second", "count"} <= set(texts(root))
    ends = [max(x for _, x, _ in points(root, f"series-0-0-{row}")) for row in (0, 1)]
    starts = [min(x for _, x, _ in points(root, f"series-0-0-{row}")) for row in (0, 1)]
    assert ends[0] - starts[0] == pytest.approx(5 * (ends[1] - starts[1]), rel=0.001)


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    root = drawn(over_time(Curve("a", (1.0, 1.0)), left_out=3), tmp_path)
    assert "the 3 smallest are not shown" in texts(root)


def test_an_empty_answer_is_drawn_as_such(tmp_path: Path) -> None:
    root = drawn(Chart(title="t", subtitle="s", legend=""), tmp_path)
    assert "no rows" in texts(root)


def test_the_same_chart_gives_the_same_bytes(tmp_path: Path) -> None:
    chart = over_time(Curve("a", (1.0, 2.0)), Curve("订单", (2.0, 1.0)))
    drawn(chart, tmp_path)
    first = (tmp_path / "chart.svg").read_bytes()
    drawn(chart, tmp_path)
    assert (tmp_path / "chart.svg").read_bytes() == first
    assert "订单".encode() in first


def test_a_png_is_a_png_and_needs_no_display(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    save_chart(over_time(Curve("a", (1.0, 2.0))), tmp_path / "chart.PNG")
    assert (tmp_path / "chart.PNG").read_bytes().startswith(b"\x89PNG\r\n")
    assert "matplotlib.pyplot" not in sys.modules, "only pyplot chooses a backend with windows"


def test_without_matplotlib_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "matplotlib":
            raise ModuleNotFoundError("no matplotlib", name="matplotlib")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=re.escape("pip install 'opentalos[plot]'")):
        check_drawable()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "chart.svg").mkdir()
    with pytest.raises(ConfigError, match=r"cannot write the chart .*chart\.svg: Is a directory"):
        save_chart(over_time(Curve("a", (1.0, 2.0))), tmp_path / "chart.svg")


def test_numbers_on_an_axis_are_short() -> None:
    values = (0, 0.25, 999, 1500, -2e6, 3e9, 4e12)
    assert [short(value) for value in values] == [
        "0", "0.25", "999", "1.5 k", "-2 M", "3 G", "4 T",
    ]  # fmt: skip

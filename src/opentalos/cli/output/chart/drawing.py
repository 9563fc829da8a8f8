"""Drawing of a chart into a PNG or SVG file with matplotlib. It needs no display.

Texts of an SVG stay texts, and curves have the ids ``series-PANEL-NUMBER``. The same chart gives
the same SVG.
"""

import io
import math
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from opentalos.cli.output.chart.content import Chart, Curve, Panel
from opentalos.model.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS: Final = (".png", ".svg")
MISSING: Final = "--plot needs matplotlib: pip install 'opentalos[plot]'"
_WIDTH_IN: Final = 10.0
_PANEL_IN: Final = 4.2
_BAR_IN: Final = 0.3
_HEAD_IN: Final = 1.3  # title, axis and margins of a panel with bars
_MARKED_MAX: Final = 120  # times of a chart; points of more would hide the line
_BINARY: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_KIB: Final = 1024
_SECONDS_FROM_MS: Final = 10_000.0  # above this a time is shown in seconds
_SHORT: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_STYLE: Final[Any] = {
    "date.converter": "concise",
    "timezone": "UTC",
    "svg.fonttype": "none",
    "svg.hashsalt": "opentalos",
    "text.parse_math": False,  # a name may contain $
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "font.size": 10.0,
}


def check_drawable() -> None:
    """Raises: ConfigError: matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise ConfigError(MISSING) from error


def save_chart(chart: Chart, path: Path) -> None:
    """Write the chart to a file whose suffix says the format. Raises: ConfigError."""
    check_drawable()
    import matplotlib as mpl

    # The user's matplotlibrc is not used: it may ask for LaTeX or a display.
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # an SVG has the text all the same
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        content = _content(_figure(chart), path.suffix.lower())
    try:
        path.write_bytes(content)
    except OSError as error:
        raise ConfigError(f"cannot write the chart {path}: {error.strerror or error}") from error


def _content(figure: "Figure", suffix: str) -> bytes:
    out = io.BytesIO()
    if suffix == ".svg":
        figure.savefig(out, format="svg", metadata={"Date": None})
    else:
        figure.savefig(out, format="png", dpi=144)
    return out.getvalue()


def _figure(chart: Chart) -> "Figure":
    from matplotlib.figure import Figure

    count = max(1, len(chart.panels))
    bars = max((len(panel.curves) for panel in chart.panels), default=1) * len(chart.names)
    height = _HEAD_IN + _BAR_IN * max(4, bars) if chart.names else _PANEL_IN
    figure = Figure(figsize=(_WIDTH_IN, height * count), layout="constrained")
    figure.suptitle(chart.title, fontsize=13, fontweight="bold")
    every = figure.subplots(count, 1, squeeze=False, sharex=bool(chart.times))[:, 0]
    every[0].set_title(chart.subtitle, fontsize=9, color="#555555", loc="center")
    if not chart.panels:
        every[0].text(0.5, 0.5, "no rows", ha="center", va="center", transform=every[0].transAxes)
        every[0].set_axis_off()
    for number, (axes, panel) in enumerate(zip(every, chart.panels, strict=False)):
        label, scaled = _scaled(panel)
        if chart.times:
            _draw_curves(axes, chart, scaled, number)
            axes.set_ylabel(label)
            _show_counts(axes.yaxis)
        else:
            _draw_bars(axes, chart, scaled, number)
            axes.set_xlabel(label)
            _show_counts(axes.xaxis)
        _note(axes, panel)
    if chart.times:
        every[-1].set_xlabel("UTC")
    return figure


def _scaled(panel: Panel) -> tuple[str, tuple[Curve, ...]]:
    """The axis label with its unit, and the values in that unit."""
    unit, factor = panel.unit, 1.0
    largest = max(
        (abs(value) for curve in panel.curves for value in curve.values if not math.isnan(value)),
        default=0.0,
    )
    if unit == "bytes":
        power = min(int(math.log(max(largest, 1.0), _KIB)), len(_BINARY) - 1)
        unit, factor = _BINARY[power], float(_KIB**power)
    elif unit == "ms" and largest > _SECONDS_FROM_MS:
        unit, factor = "s", 1_000.0
    units = f"{unit} per {panel.per}".strip() if panel.per else unit
    curves = tuple(
        Curve(curve.label, tuple(value / factor for value in curve.values))
        for curve in panel.curves
    )
    return f"{panel.label}, {units}" if units else panel.label, curves


def _draw_curves(axes: "Axes", chart: Chart, curves: tuple[Curve, ...], number: int) -> None:
    times: Any = [datetime.fromtimestamp(time / 1000, UTC) for time in chart.times]
    marker = "." if len(times) <= _MARKED_MAX else ""
    lines = []
    for place, curve in enumerate(curves):
        [line] = axes.plot(times, curve.values, marker=marker, linewidth=1.4)
        line.set_gid(f"series-{number}-{place}")
        lines.append(line)
    if all(not value < 0 for curve in curves for value in curve.values):
        axes.set_ylim(bottom=0)
    if len(lines) > 1 or chart.legend:
        _draw_legend(axes, lines, curves, chart.legend)


def _draw_bars(axes: "Axes", chart: Chart, curves: tuple[Curve, ...], number: int) -> None:
    height = 0.8 / len(curves)
    drawn = []
    for place, curve in enumerate(curves):
        rows = [row + (place + 0.5) * height - 0.4 for row in range(len(chart.names))]
        bars = axes.barh(rows, curve.values, height=height)
        for row, bar in enumerate(bars):
            bar.set_gid(f"series-{number}-{place}-{row}")
        drawn.append(bars)
    axes.set_yticks(range(len(chart.names)), chart.names)
    axes.set_ylim(len(chart.names) - 0.5, -0.5)  # the first is on top
    axes.grid(visible=False, axis="y")
    if len(curves) > 1:
        _draw_legend(axes, drawn, curves, "")


def _draw_legend(axes: "Axes", drawn: list[Any], curves: tuple[Curve, ...], title: str) -> None:
    numbers = [str(place) for place, _ in enumerate(curves)]
    legend = axes.legend(
        drawn, numbers, title=title or None, loc="upper left", bbox_to_anchor=(1.01, 1.0),
        frameon=False, borderaxespad=0.0,
    )  # fmt: skip
    # Set afterwards: matplotlib leaves out a label that begins with an underscore.
    for text, curve in zip(legend.get_texts(), curves, strict=True):
        text.set_text(curve.label)


def _show_counts(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _place: short(value)))


def short(value: float) -> str:
    """A number on an axis: 1500 as ``1.5 k``."""
    for size, letter in _SHORT:
        if abs(value) >= size:
            return f"{value / size:g} {letter}"
    return f"{value:g}"


def _note(axes: "Axes", panel: Panel) -> None:
    if panel.left_out:
        text = f"the {panel.left_out} smallest are not shown"
        axes.annotate(
            text, (1.0, 1.0), xycoords="axes fraction", ha="right", va="bottom",
            fontsize=8, color="#555555",
        )  # fmt: skip

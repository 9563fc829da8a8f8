"""The figures of a benchmark run, as a table and as JSON."""

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured figure and its goal; ``met`` is None without a goal."""

    name: str
    unit: str
    values: list[float]  # one per repeat
    goal: str = ""
    met: bool | None = None
    notes: dict[str, float | str] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The median of the values."""
        return statistics.median(self.values)


def at_least(name: str, unit: str, goal: float, values: Sequence[float], **notes: float) -> Figure:
    """A figure whose median should be at least ``goal``."""
    met = statistics.median(values) >= goal
    return Figure(
        name=name,
        unit=unit,
        values=list(values),
        goal=f">= {_number(goal)}",
        met=met,
        notes=dict(notes),
    )


def at_most(name: str, unit: str, goal: float, values: Sequence[float], **notes: float) -> Figure:
    """A figure whose median should be at most ``goal``."""
    met = statistics.median(values) <= goal
    return Figure(
        name=name,
        unit=unit,
        values=list(values),
        goal=f"<= {_number(goal)}",
        met=met,
        notes=dict(notes),
    )


def table(figures: Sequence[Figure]) -> str:
    """Columns: figure, goal, median, range, met, notes."""
    rows = _rows(figures)
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[5]])
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def markdown(figures: Sequence[Figure]) -> str:
    """The same table for a page."""
    head, *rows = _rows(figures)
    lines = [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)]
    return "\n".join(lines) + "\n"


def _rows(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("figure", "goal", "median", "min .. max", "met", "notes")]
    for figure in figures:
        notes = ", ".join(
            f"{key} {_number(value) if isinstance(value, int | float) else value}"
            for key, value in figure.notes.items()
        )
        met = {True: "yes", False: "NO", None: "-"}[figure.met]
        span = f"{_number(min(figure.values))} .. {_number(max(figure.values))}"
        goal = f"{figure.goal} {figure.unit}" if figure.goal else "report"
        rows.append(
            (figure.name, goal, f"{_number(figure.median)} {figure.unit}", span, met, notes)
        )
    return rows


def write_json(path: Path, figures: Sequence[Figure]) -> None:
    """Write all figures with their values and a description of the machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "load_average_15_min": os.getloadavg()[2],  # others that took part of the machine
    }
    document = {"machine": machine, "figures": [asdict(figure) for figure in figures]}
    path.write_text(json.dumps(document, indent=2) + "\n")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"

"""Lines over a few numbers, as an SVG that needs nothing to be made or shown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 62, 50  # margins
COLOURS = ("#1f6feb", "#d1495b", "#2e8b57", "#9a6700")
TICKS = 5
KEY_WIDTH = (WIDTH - LEFT - RIGHT) / len(COLOURS)  # of a line's name above the picture

Line = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Labels:
    """What the picture says. ``logarithmic``: of the vertical axis, for values above 0."""

    title: str
    across: str  # of the horizontal axis
    logarithmic: bool = False


def draw(lines: Mapping[str, Line], labels: Labels, path: Path) -> None:
    """One line for each name; the numbers of the horizontal axis are evenly spread."""
    counts = sorted({count for line in lines.values() for count in line})
    values = [value for line in lines.values() for value in line.values()]
    ticks = _decades(values) if labels.logarithmic else _even(values)
    scale = math.log if labels.logarithmic else float
    low, high = scale(ticks[0]), scale(ticks[-1])
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(count: int) -> float:
        return LEFT + across * (counts.index(count) + 0.5) / len(counts)

    def y(value: float) -> float:
        return TOP + down * (1 - (scale(value) - low) / (high - low))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        _text(WIDTH / 2, 22, labels.title, "middle"),
        _text(WIDTH / 2, HEIGHT - 12, labels.across, "middle"),
    ]
    for tick in ticks:
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" '
            'stroke="#ddd"/>'
        )
        parts.append(_text(LEFT - 8, y(tick) + 4, f"{tick:,.10g}", "end"))
    parts += [_text(x(count), HEIGHT - BOTTOM + 18, f"{count:,}", "middle") for count in counts]
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        parts.append(_text(LEFT + number * KEY_WIDTH, 46, name, "start", colour))
        points = " ".join(f"{x(count):.1f},{y(value):.1f}" for count, value in sorted(line.items()))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts += [
            f'<circle cx="{x(count):.1f}" cy="{y(value):.1f}" r="4" fill="{colour}"/>'
            for count, value in line.items()
        ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


def _even(values: Sequence[float]) -> list[float]:
    """From 0 to the next of 1, 2 or 5 times a power of ten."""
    most = max(values)
    power = 10.0 ** math.floor(math.log10(most))
    top = next(power * step for step in (1, 2, 5, 10) if power * step >= most)
    return [top * tick / TICKS for tick in range(TICKS + 1)]


def _decades(values: Sequence[float]) -> list[float]:
    """Powers of ten around all values."""
    first = math.floor(math.log10(min(values)))
    last = max(first + 1, math.ceil(math.log10(max(values))))
    return [10.0**power for power in range(first, last + 1)]

"""Lines over the number of shards, as an SVG that needs nothing to be made or shown."""

from collections.abc import Mapping
from pathlib import Path

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 50  # margins
COLOURS = ("#1f6feb", "#d1495b", "#2e8b57")
TICKS = 5

Line = Mapping[int, float]  # puts a second by number of shards


def draw(lines: Mapping[str, Line], path: Path) -> None:
    """One line for each place; the places of the numbers of shards are evenly spread."""
    counts = sorted({count for line in lines.values() for count in line})
    top = _round_up(max(rate for line in lines.values() for rate in line.values()))
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(count: int) -> float:
        return LEFT + across * (counts.index(count) + 0.5) / len(counts)

    def y(rate: float) -> float:
        return TOP + down * (1 - rate / top)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        _text(WIDTH / 2, 22, "Single puts a second, stream on, one server", "middle"),
        _text(WIDTH / 2, HEIGHT - 12, "shards of the table", "middle"),
    ]
    for tick in range(TICKS + 1):
        rate = top * tick / TICKS
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(rate):.1f}" y2="{y(rate):.1f}" '
            'stroke="#ddd"/>'
        )
        parts.append(_text(LEFT - 8, y(rate) + 4, f"{rate:,.0f}", "end"))
    parts += [_text(x(count), HEIGHT - BOTTOM + 18, str(count), "middle") for count in counts]
    for (name, line), colour in zip(lines.items(), COLOURS, strict=False):
        points = " ".join(f"{x(count):.1f},{y(rate):.1f}" for count, rate in sorted(line.items()))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts += [
            f'<circle cx="{x(count):.1f}" cy="{y(rate):.1f}" r="4" fill="{colour}"/>'
            for count, rate in line.items()
        ]
        last = max(line)
        parts.append(_text(x(last), y(line[last]) - 10, name, "middle", colour))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


def _round_up(value: float) -> float:
    """The next of 1, 2 or 5 times a power of ten."""
    power = 1.0
    while power * 10 <= value:
        power *= 10
    return next(power * step for step in (1, 2, 5, 10) if power * step >= value)

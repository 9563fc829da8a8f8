"""The usage by day on an invoice: inline SVG, which needs no library and prints well.

The same usage gives the same text. Every bar has its exact count as its title.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from opentalos.pipelines.billing.invoices.sizes import size_text
from opentalos.pipelines.lake.periods.month import Month

_WIDTH: Final = 720  # of the drawing, which is scaled to the page
_HEIGHT: Final = 132
_LEFT: Final = 4
_TOP: Final = 22  # the largest value's text is above the bars
_BARS: Final = 84  # height of the largest bar
_FLOOR: Final = _TOP + _BARS
_GAP: Final = 4  # between two bars
_EVERY: Final = 5  # days whose number is below their bar, and the first


@dataclass(frozen=True, slots=True, kw_only=True)
class DayUse:
    """What a tenant stored on one day in UTC."""

    records: int
    bytes: int


def daily_chart(month: Month, days: Sequence[DayUse]) -> str:
    """Charts of messages and bytes by day.

    Args:    days: one for each day of the month, or none at all.
    Returns: HTML; empty if nothing was used.
    """
    if not any(day.records or day.bytes for day in days):
        return ""
    parts = ["<h2>Usage by day</h2>"]
    parts += _chart(month, "Messages", [day.records for day in days], _messages)
    parts += _chart(month, "Bytes", [day.bytes for day in days], size_text)
    return "\n".join(parts)


def _chart(
    month: Month, name: str, values: Sequence[int], shown: Callable[[int], str]
) -> Iterator[str]:
    largest = max(values)
    most = f"{name} stored by day in UTC, at most {shown(largest)} on one day"
    yield (
        f'<svg class="days" role="img" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" '
        f'font-family="system-ui,sans-serif" font-size="11"><title>{most}</title>'
        f'<text x="{_LEFT}" y="12" fill="#666">{most}</text>'
    )
    step = (_WIDTH - 2 * _LEFT) / len(values)
    for number, value in enumerate(values, 1):
        x, height = _LEFT + (number - 1) * step, _height(value, largest)
        yield (
            f'<rect x="{x + _GAP / 2:.2f}" y="{_FLOOR - height:.2f}" width="{step - _GAP:.2f}" '
            f'height="{height:.2f}" fill="#4a6fa5"><title>{month}-{number:02}: {value:,} '
            f"{name.lower()}</title></rect>"
        )
        if number == 1 or number % _EVERY == 0:
            yield (
                f'<text x="{x + step / 2:.2f}" y="{_FLOOR + 16}" text-anchor="middle" '
                f'fill="#666">{number}</text>'
            )
    right = _WIDTH - _LEFT
    yield f'<line x1="{_LEFT}" x2="{right}" y1="{_FLOOR}" y2="{_FLOOR}" stroke="#999"/></svg>'


def _height(value: int, largest: int) -> float:
    """Of a bar; a day with usage is always visible."""
    if not value:
        return 0.0
    return max(1.0, _BARS * value / largest)


def _messages(count: int) -> str:
    return f"{count:,}"

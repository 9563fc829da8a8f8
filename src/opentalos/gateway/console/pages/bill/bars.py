"""Bars that the server draws: amounts over time, kinds of them on top of each other. No scripts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from opentalos.gateway.console.shown import instant

HEIGHT: Final = 100.0
WIDTH: Final = 10  # of a bar with its gap
ENDS: Final = 5  # labels below the drawing


class Bar(NamedTuple):
    """``parts``: amounts from the bottom up; ``text``: what they are, in words."""

    label: str
    parts: Sequence[float]
    text: str
    link: str = ""

    @classmethod
    def at(cls, ms: int, parts: Sequence[float], text: str, link: str = "") -> Self:
        """A bar of a time."""
        return cls(instant(ms)[:16], parts, text, link)


class Piece(NamedTuple):
    """A rectangle of a drawing that is 100 high and 10 wide for each bar."""

    x: float
    y: float
    height: float
    kind: int


@dataclass(frozen=True, slots=True)
class Bars:
    """A drawing, for the macro ``bars``. ``label_from``: where the short labels below it start."""

    bars: Sequence[Bar]
    label_from: int = 0

    @property
    def width(self) -> int:
        """Of the drawing."""
        return max(1, len(self.bars)) * WIDTH

    @property
    def largest(self) -> Bar | None:
        """The highest bar, which gives the scale; None: all are empty."""
        bar = max(self.bars, key=lambda bar: sum(bar.parts), default=None)
        return bar if bar is not None and sum(bar.parts) > 0 else None

    @property
    def pieces(self) -> Sequence[tuple[Bar, Sequence[Piece]]]:
        """The rectangles of each bar; what is not zero can be seen."""
        most = max((sum(bar.parts) for bar in self.bars), default=0) or 1
        found = []
        for index, bar in enumerate(self.bars):
            floor, rectangles = HEIGHT, []
            for kind, value in enumerate(bar.parts):
                if value > 0:
                    height = max(1.0, value / most * HEIGHT)
                    floor = max(0.0, floor - height)
                    x = index * WIDTH + 1
                    rectangles.append(Piece(x, round(floor, 2), round(height, 2), kind))
            found.append((bar, rectangles))
        return found

    @property
    def ends(self) -> Sequence[str]:
        """Labels below the drawing, evenly apart."""
        labels = [bar.label[self.label_from :] for bar in self.bars]
        if len(labels) <= ENDS:
            return labels
        step = (len(labels) - 1) / (ENDS - 1)
        return [labels[round(index * step)] for index in range(ENDS)]

"""The hash ring as a picture: arcs of each server as one path, shares as an inner ring."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

COLOURS: Final = 8
SLICES_MAX: Final = 480  # of one picture: narrower arcs are no longer seen
OUTER: Final = (118.0, 84.0)  # radii of the ring of arcs
INNER: Final = (78.0, 62.0)  # and of the ring of shares
_WHOLE: Final = 0.99999  # an arc that ends where it begins is none


class Slot(NamedTuple):
    """One server in the picture. ``share``: of the ring, 0 to 1."""

    name: str
    colour: int
    share: float
    arcs: str  # of an SVG path
    band: str


class Ring(NamedTuple):
    """A picture. ``exact``: every arc is drawn."""

    slots: Sequence[Slot]
    exact: bool


def colours_of(names: Sequence[str]) -> Mapping[str, int]:
    """The same server has the same colour on all pages."""
    return {name: place % COLOURS for place, name in enumerate(sorted(names))}


def ring_of(found: Mapping[str, Any], colours: Mapping[str, int]) -> Ring:
    """Args: found: the reply of ``cluster/ring``, or of a preview."""
    arcs, merged = _slices(found["arcs"])
    paths: dict[str, list[str]] = {}
    for start, end, server in arcs:
        paths.setdefault(server, []).append(band(start, end, OUTER))
    slots: list[Slot] = []
    begin = 0.0
    for name, share in sorted(found["shares"].items()):
        bands = band(begin, begin + share, INNER) if share > 0 else ""
        slots.append(Slot(name, colours.get(name, 0), share, "".join(paths.get(name, ())), bands))
        begin += share
    return Ring(slots, bool(found["exact"]) and not merged)


def band(start: float, end: float, radii: tuple[float, float]) -> str:
    """The part of a ring between two shares of the circle, clockwise from the top, as a path."""
    if end - start >= 1:
        half = start + _WHOLE / 2
        return band(start, half, radii) + band(half, start + _WHOLE, radii)
    outer, inner = radii
    large = int(end - start > 1 / 2)
    (x1, y1), (x2, y2) = _point(start, outer), _point(end, outer)
    (x3, y3), (x4, y4) = _point(end, inner), _point(start, inner)
    return (
        f"M{x1:.1f} {y1:.1f}A{outer:g} {outer:g} 0 {large} 1 {x2:.1f} {y2:.1f}"
        f"L{x3:.1f} {y3:.1f}A{inner:g} {inner:g} 0 {large} 0 {x4:.1f} {y4:.1f}Z"
    )


def _point(share: float, radius: float) -> tuple[float, float]:
    angle = 2 * math.pi * share
    return radius * math.sin(angle), -radius * math.cos(angle)


def _slices(
    arcs: Sequence[Mapping[str, Any]],
) -> tuple[Sequence[tuple[float, float, str]], bool]:
    """At most ``SLICES_MAX`` arcs, and whether some were too narrow to be drawn alone."""
    joined: list[tuple[float, float, str]] = []
    for arc in arcs:
        if joined and joined[-1][2] == arc["server"]:
            joined[-1] = (joined[-1][0], arc["end"], arc["server"])
        else:
            joined.append((arc["start"], arc["end"], arc["server"]))
    if len(joined) <= SLICES_MAX:
        return joined, False
    owned: list[dict[str, float]] = [{} for _ in range(SLICES_MAX)]
    for start, end, server in joined:
        first = min(SLICES_MAX - 1, int(start * SLICES_MAX))
        last = min(SLICES_MAX - 1, int(end * SLICES_MAX))
        for place in range(first, last + 1):
            least, most = place / SLICES_MAX, (place + 1) / SLICES_MAX
            width = min(end, most) - max(start, least)
            owned[place][server] = owned[place].get(server, 0.0) + max(0.0, width)
    sliced: list[tuple[float, float, str]] = []
    for place, widths in enumerate(owned):
        if not widths:
            continue
        server = max(widths, key=lambda name: widths[name])
        end = (place + 1) / SLICES_MAX
        if sliced and sliced[-1][2] == server and sliced[-1][1] == place / SLICES_MAX:
            sliced[-1] = (sliced[-1][0], end, server)
        else:
            sliced.append((place / SLICES_MAX, end, server))
    return sliced, True

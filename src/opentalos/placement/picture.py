"""A hash ring as it can be drawn; pure."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from opentalos.placement.ring import SECTORS, by_sector, node_points
from opentalos.placement.values import Nodes

ARCS_MAX: Final = 4_096  # an eye does not see more; beyond it the ring is drawn in slices
_RING: Final = 1 << 64


class Arc(NamedTuple):
    """Part of the ring that belongs to one server; ends as shares of the ring, 0 to 1."""

    start: float
    end: float
    server: str


class Picture(NamedTuple):
    """Arcs in order, without gaps, and each server's share of the ring.

    ``exact``: False if an arc is a slice whose largest owner is named.
    """

    arcs: Sequence[Arc]
    shares: Mapping[str, float]
    exact: bool


def picture(servers: Mapping[str, Nodes], arcs_max: int = ARCS_MAX) -> Picture:
    """The ring of these virtual nodes. Raises: ValueError: no servers, or a count is not valid."""
    counts = {server: by_sector(nodes) for server, nodes in servers.items()}
    points = sorted(
        (point, server)
        for server, of_server in counts.items()
        for sector in range(SECTORS)
        for point in node_points(server, sector, of_server[sector])
    )
    if not points:
        raise ValueError("a ring needs a server")
    # A key belongs to the first node at or after it; beyond the last node to the first.
    ends = [*points, (_RING, points[0][1])]
    arcs: list[Arc] = []
    widths = dict.fromkeys(sorted(servers), 0)
    start = 0
    for end, server in ends:
        widths[server] += end - start
        if arcs and arcs[-1].server == server:
            arcs[-1] = arcs[-1]._replace(end=end / _RING)
        elif end > start:
            arcs.append(Arc(start / _RING, end / _RING, server))
        start = end
    shares = {server: width / _RING for server, width in widths.items()}
    if len(arcs) <= arcs_max:
        return Picture(arcs, shares, exact=True)
    return Picture(_sliced(arcs, arcs_max), shares, exact=False)


def _sliced(arcs: Sequence[Arc], count: int) -> Sequence[Arc]:
    """Slices of equal width, each with the server that has most of it."""
    owned: list[dict[str, float]] = [{} for _ in range(count)]
    for arc in arcs:
        first, last = int(arc.start * count), min(count - 1, int(arc.end * count))
        for number in range(first, last + 1):
            width = min(arc.end, (number + 1) / count) - max(arc.start, number / count)
            if width > 0:
                part = owned[number]
                part[arc.server] = part.get(arc.server, 0.0) + width
    found: list[Arc] = []
    for number, part in enumerate(owned):
        server = max(sorted(part), key=part.__getitem__)
        if found and found[-1].server == server:
            found[-1] = found[-1]._replace(end=(number + 1) / count)
        else:
            found.append(Arc(number / count, (number + 1) / count, server))
    return found

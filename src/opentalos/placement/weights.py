"""Weights from past traffic: which virtual nodes spread it evenly, within a budget of moves. Pure.

The ring says exactly which partitions a changed count of virtual nodes moves, so the result of a
change is computed, not guessed. The search is greedy: of all changes of one count, the one that
lowers the variance of the servers' traffic most for its moves, until nothing helps or the budget
is spent. The heaviest partitions matter most; a small sector lets one of them move almost alone.
"""

from bisect import bisect_left
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

from opentalos.model.message import PartitionKey
from opentalos.placement.ring import by_sector, node_points, partition_key, point_of
from opentalos.placement.values import Nodes

LATEST_SHARE = 0.7  # of the latest day in what is expected; the rest fades by the same share
STACK_MORE = 12  # virtual nodes that a count may grow beyond the largest one
STEPS_MAX = 6  # by which one change changes a count
CHANGES_MAX = 1_000  # of one proposal
POINTS_A_STEP = 1_000  # partitions that are hashed at once
GAIN_MIN = 0.001  # of the variance; less is not worth a move


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """New weights and what they do to the traffic that they were made from.

    ``loads_before`` and ``loads_after``: traffic by server. ``moves``: partitions with the
    servers they leave and go to.
    """

    weights: Mapping[str, Sequence[int]]
    loads_before: Mapping[str, int]
    loads_after: Mapping[str, int]
    moves: Mapping[PartitionKey, tuple[str, str]]


def expected_traffic(days: Sequence[Mapping[PartitionKey, int]]) -> Mapping[PartitionKey, int]:
    """Traffic to expect, from past days, the oldest first; the latest counts most."""
    keys = dict.fromkeys(key for day in days for key in day)
    expected = {}
    for key in keys:
        traffic = float(days[0].get(key, 0))
        for day in days[1:]:
            traffic += LATEST_SHARE * (day.get(key, 0) - traffic)
        expected[key] = round(traffic)
    return expected


def variance(loads: Mapping[str, float]) -> float:
    """Variance of the traffic across servers."""
    mean = sum(loads.values()) / len(loads)
    return sum((load - mean) ** 2 for load in loads.values()) / len(loads)


def propose(
    traffic: Mapping[PartitionKey, int], ring: Mapping[str, Nodes], moves_max: int
) -> Proposal:
    """Better weights for the servers of a ring that move at most ``moves_max`` partitions.

    Args: traffic: of every partition, also of idle ones, since they move too.
    """
    steps = proposing(traffic, ring, moves_max)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            proposal: Proposal = end.value
            return proposal


def proposing(
    traffic: Mapping[PartitionKey, int], ring: Mapping[str, Nodes], moves_max: int
) -> Generator[None, None, Proposal]:
    """``propose`` in steps of some milliseconds, so that the caller can do other work."""
    points = []
    for number, key in enumerate(traffic):
        points.append(point_of(partition_key(key)))
        if number % POINTS_A_STEP == 0:
            yield
    layout = _Layout(traffic, ring, points)
    before = layout.loads_by_name()
    for _ in range(CHANGES_MAX):
        best = yield from _best_change(layout, moves_max)
        if best is None:
            break
        stack, add, steps = best
        for _ in range(steps):
            layout.step(stack, add)
    return Proposal(
        weights=layout.weights(),
        loads_before=before,
        loads_after=layout.loads_by_name(),
        moves=dict(layout.moves()),
    )


def _best_change(
    layout: "_Layout", moves_max: int
) -> Generator[None, None, tuple[int, bool, int] | None]:
    """The stack, the direction and the steps of the change that is most worth its moves."""
    uneven, moved = layout.unevenness(), layout.moved
    best, best_score = None, 0.0
    for stack in range(len(layout.counts)):
        for add in (True, False):
            steps = 0
            while steps < STEPS_MAX and layout.can_step(stack, add):
                layout.step(stack, add)
                steps += 1
                if layout.moved > moves_max:
                    break
                gain = uneven - layout.unevenness()
                if gain > GAIN_MIN * uneven:
                    # The square root lets a heavy partition that costs some moves come first.
                    score = gain / max(layout.moved - moved, 1) ** 0.5
                    if score > best_score:
                        best, best_score = (stack, add, steps), score
            for _ in range(steps):
                layout.step(stack, not add)
        yield
    return best


class _Layout:
    """Who owns what on a ring whose counts of virtual nodes change one by one.

    A stack is one server's nodes in one sector: a step adds its next node or takes the last. All
    nodes that there may ever be are numbered around the ring; ``_active`` are those there now.
    """

    def __init__(
        self,
        traffic: Mapping[PartitionKey, int],
        ring: Mapping[str, Nodes],
        points_of_keys: Sequence[int],
    ) -> None:
        self._names = sorted(ring)
        self.counts = [count for name in self._names for count in by_sector(ring[name])]
        self._sectors = len(self.counts) // len(self._names)
        self._stack_max = max(self.counts) + STACK_MORE
        nodes = sorted(
            (point, self._names[stack // self._sectors], stack, place)
            for stack in range(len(self.counts))
            for place, point in enumerate(self._points_of(stack))
        )
        self._server = [stack // self._sectors for _, _, stack, _ in nodes]
        self._numbers: list[list[int]] = [[0] * self._stack_max for _ in self.counts]
        for number, (_, _, stack, place) in enumerate(nodes):
            self._numbers[stack][place] = number
        points = [point for point, _, _, _ in nodes]
        self._keys = list(traffic)
        self._traffic = list(traffic.values())
        self._arcs: list[list[int]] = [[] for _ in nodes]  # partitions up to each node
        for index, point in enumerate(points_of_keys):
            number = bisect_left(points, point)
            self._arcs[number % len(nodes)].append(index)
        self._active = sorted(
            self._numbers[stack][place]
            for stack, count in enumerate(self.counts)
            for place in range(count)
        )
        self._owner = [0] * len(self._keys)
        for former, number in zip([self._active[-1], *self._active], self._active, strict=False):
            for index in self._between(former, number):
                self._owner[index] = self._server[number]
        self._owner_before = list(self._owner)
        self._loads = [0] * len(self._names)
        for index, server in enumerate(self._owner):
            self._loads[server] += self._traffic[index]
        self.moved = 0  # partitions with another owner than before

    def can_step(self, stack: int, add: bool) -> bool:
        """Whether the stack has a node to add or take; a server keeps one node at least."""
        if add:
            return self.counts[stack] < self._stack_max
        first = stack - stack % self._sectors
        return self.counts[stack] > 0 and sum(self.counts[first : first + self._sectors]) > 1

    def step(self, stack: int, add: bool) -> None:
        """Add the stack's next node or take its last."""
        place = self.counts[stack] if add else self.counts[stack] - 1
        number = self._numbers[stack][place]
        at = bisect_left(self._active, number)
        former = self._active[at - 1]
        if add:
            self._active.insert(at, number)
            self.counts[stack] += 1
            self._give(former, number, self._server[number])
        else:
            del self._active[at]
            self.counts[stack] -= 1
            self._give(former, number, self._server[self._active[at % len(self._active)]])

    def unevenness(self) -> float:
        """The variance of the traffic, but for constants."""
        return float(sum(load * load for load in self._loads)) - self._floor()

    def loads_by_name(self) -> dict[str, int]:
        """Traffic by server."""
        return dict(zip(self._names, self._loads, strict=True))

    def weights(self) -> dict[str, Sequence[int]]:
        """Virtual nodes by server and sector."""
        return {
            name: self.counts[place * self._sectors : (place + 1) * self._sectors]
            for place, name in enumerate(self._names)
        }

    def moves(self) -> Iterator[tuple[PartitionKey, tuple[str, str]]]:
        """Partitions with another owner than before."""
        for index, key in enumerate(self._keys):
            before, after = self._owner_before[index], self._owner[index]
            if before != after:
                yield key, (self._names[before], self._names[after])

    def _floor(self) -> float:
        return sum(self._loads) ** 2 / len(self._loads)

    def _points_of(self, stack: int) -> Iterator[int]:
        server, sector = divmod(stack, self._sectors)
        return node_points(self._names[server], sector, self._stack_max)

    def _between(self, former: int, number: int) -> Iterator[int]:
        """Partitions behind one node up to another one."""
        while True:
            former = (former + 1) % len(self._arcs)
            yield from self._arcs[former]
            if former == number:
                return

    def _give(self, former: int, number: int, server: int) -> None:
        """What lies between two nodes belongs to a server now."""
        for index in self._between(former, number):
            owner = self._owner[index]
            if owner != server:
                traffic, before = self._traffic[index], self._owner_before[index]
                self._loads[owner] -= traffic
                self._loads[server] += traffic
                self.moved += (owner == before) - (server == before)
                self._owner[index] = server

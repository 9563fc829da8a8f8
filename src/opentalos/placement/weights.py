"""Weights from past traffic: which virtual nodes spread it evenly, within a budget of moves. Pure.

A changed count of virtual nodes gives partitions another home on the ring, and these move, but for
those whose new server has enough of the topic. So the result of a change is computed with the rule
of the plan (``targets``), not guessed. The search is greedy: of all changes of one count, the one
that lowers the variance of the servers' traffic most for its moves, until nothing helps or the
budget is spent. The heaviest partitions matter most; a small sector lets one of them move almost
alone.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from opentalos.model.message import PartitionKey
from opentalos.placement.ring import Ring, by_sector, node_points, partition_key, point_of
from opentalos.placement.spread import Spread
from opentalos.placement.steps import Pace, Steps, finished
from opentalos.placement.targets import Takers, Targets, changed_homes, fair
from opentalos.placement.values import Nodes

LATEST_SHARE = 0.7  # of the latest day in what is expected; the rest fades by the same share
STACK_MORE = 24  # virtual nodes that a count may grow beyond the largest one
STEPS_MAX = 12  # by which one change changes a count; many partitions are not at their home
CHANGES_MAX = 1_000  # of one proposal
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
    return finished(expecting(days, Pace()))


def expecting(
    days: Sequence[Mapping[PartitionKey, int]], pace: Pace
) -> Steps[Mapping[PartitionKey, int]]:
    """``expected_traffic`` in steps."""
    keys: dict[PartitionKey, None] = {}
    for day in days:
        keys.update(dict.fromkeys(day))
        if pace.due(len(day) // 8):
            yield
    expected = {}
    for key in keys:
        if pace.due(len(days)):
            yield
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
    traffic: Mapping[PartitionKey, int],
    ring: Mapping[str, Nodes],
    owners: Mapping[PartitionKey, str],
    moves_max: int,
) -> Proposal:
    """Better weights for the servers of a ring that move at most ``moves_max`` partitions.

    Args: traffic: of every partition, also of idle ones, since they move too. owners: as published;
    one that is not on the ring counts for no server.
    """
    return finished(proposing(traffic, ring, owners, moves_max, Pace()))


def proposing(
    traffic: Mapping[PartitionKey, int],
    ring: Mapping[str, Nodes],
    owners: Mapping[PartitionKey, str],
    moves_max: int,
    pace: Pace,
) -> Steps[Proposal]:
    """``propose`` in steps of some milliseconds, so that the caller can do other work."""
    layout = _Layout(traffic, ring)
    if pace.due(len(traffic) // 4):
        yield
    yield from layout.fill(owners, pace)
    before = layout.loads_by_name()
    changes = []
    for _ in range(CHANGES_MAX):
        best = yield from _best_change(layout, moves_max)
        if best is None:
            break
        stack, add, steps = best
        for _ in range(steps):
            layout.step(stack, add)
        changes.append(steps)
    while True:
        moves = yield from _moves(owners, traffic, ring, layout.weights(), pace)
        after = _loads_after(before, moves, traffic)
        if (len(moves) <= moves_max and variance(after) <= variance(before)) or not changes:
            break
        # The search does not see every partition that another one's move makes room for. So there
        # may be too many moves, or such that the servers are less even than they are.
        for _ in range(changes.pop()):
            layout.back()
    weights = layout.weights()
    del layout  # which takes a while as well
    if pace.due(len(traffic) // 4):
        yield
    return Proposal(weights=weights, loads_before=before, loads_after=after, moves=moves)


def _loads_after(
    before: Mapping[str, int],
    moves: Mapping[PartitionKey, tuple[str, str]],
    traffic: Mapping[PartitionKey, int],
) -> dict[str, int]:
    """Traffic of each server after these moves; a source that is not on the ring has none."""
    after = dict(before)
    for key, (source, target) in moves.items():
        after[target] += traffic[key]
        if source in after:
            after[source] -= traffic[key]
    return after


def _moves(
    owners: Mapping[PartitionKey, str],
    traffic: Mapping[PartitionKey, int],
    former: Mapping[str, Nodes],
    ring: Mapping[str, Nodes],
    pace: Pace,
) -> Steps[Mapping[PartitionKey, tuple[str, str]]]:
    """What the plan moves for these weights: former and new server by partition."""
    placed = [key for key in traffic if owners.get(key)]
    taking = yield from Ring.building(ring, pace)
    takers = Takers(ring=taking, names=ring.keys(), fair=fair(len(placed), ring))
    targets = Targets(takers, Spread(placed, ring), pace)
    for key in placed:
        targets.keep(key, owners[key])
        if pace.due():
            yield
    homes = yield from changed_homes(placed, former, ring, pace)
    moves = yield from targets.moves(placed, frozenset(), homes)
    return {key: (owners[key], target) for key, target in moves.items()}


def _best_change(layout: "_Layout", moves_max: int) -> Steps[tuple[int, bool, int] | None]:
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
                layout.back()
        yield
    return best


class _Layout:
    """Who owns what on a ring whose counts of virtual nodes change one by one.

    A stack is one server's nodes in one sector: a step adds its next node or takes the last. All
    nodes that there may ever be are numbered around the ring; ``_active`` are those there now.
    A partition with another home than at first is there if there is room; else it stays.
    """

    def __init__(self, traffic: Mapping[PartitionKey, int], ring: Mapping[str, Nodes]) -> None:
        """It is empty until ``fill``."""
        self._names = sorted(ring)
        self.counts = [count for name in self._names for count in by_sector(ring[name])]
        self._sectors = len(self.counts) // len(self._names)
        self._stack_max = max(self.counts) + STACK_MORE
        self._server: list[int] = []
        self._numbers: list[list[int]] = [[0] * self._stack_max for _ in self.counts]
        self._keys = list(traffic)
        self._traffic = list(traffic.values())
        self._arcs: dict[int, list[int]] = {}  # partitions up to a node, if there are any
        self._active: list[int] = []
        self._home = [0] * len(self._keys)
        self._home_before: list[int] = []
        self._owner: list[int] = []
        self._owner_before: list[int] = []
        self._spread = Spread(self._keys, ring)
        self._loads = [0] * (len(self._names) + 1)
        self.moved = 0  # partitions with another owner than before
        self._steps: list[tuple[int, bool, list[tuple[int, int, int]]]] = []

    def fill(self, owners: Mapping[PartitionKey, str], pace: Pace) -> Steps[None]:
        """Lay out the nodes, then the partitions at their servers."""
        points = yield from self._lay_out(pace)
        for index, key in enumerate(self._keys):
            number = bisect_left(points, point_of(partition_key(key)))
            self._arcs.setdefault(number % len(points), []).append(index)
            if pace.due(2):
                yield
        for number, indexes in self._arcs.items():
            at = bisect_left(self._active, number) % len(self._active)
            for index in indexes:
                self._home[index] = self._server[self._active[at]]
            if pace.due(1 + len(indexes)):
                yield
        self._home_before = list(self._home)
        numbers = {name: number for number, name in enumerate(self._names)}
        elsewhere = len(self._names)  # the number of all servers that are not on the ring
        for index, key in enumerate(self._keys):
            server = numbers.get(owners.get(key, ""), elsewhere)
            self._owner.append(server)
            self._loads[server] += self._traffic[index]
            if server < elsewhere:
                self._spread.add(key, self._names[server])
            if pace.due():
                yield
        self._owner_before = list(self._owner)

    def _lay_out(self, pace: Pace) -> Steps[Sequence[int]]:
        """Number the nodes that there may be; returns their points, around the ring."""
        points: list[int] = []
        for sector in range(self._sectors):  # the points of one are all below those of the next
            nodes: list[tuple[int, str, int, int]] = []
            for server, name in enumerate(self._names):
                stack = server * self._sectors + sector
                found = node_points(name, sector, self._stack_max)
                nodes += [(point, name, stack, place) for place, point in enumerate(found)]
                if pace.due(self._stack_max):
                    yield
            for point, _, stack, place in sorted(nodes):
                self._numbers[stack][place] = len(points)
                if place < self.counts[stack]:
                    self._active.append(len(points))
                points.append(point)
                self._server.append(stack // self._sectors)
                if pace.due():
                    yield
        return points

    def can_step(self, stack: int, add: bool) -> bool:
        """Whether the stack has a node to add or take; a server keeps one node at least."""
        if add:
            return self.counts[stack] < self._stack_max
        first = stack - stack % self._sectors
        return self.counts[stack] > 0 and sum(self.counts[first : first + self._sectors]) > 1

    def step(self, stack: int, add: bool) -> None:
        """Add the stack's next node or take its last."""
        changed: list[tuple[int, int, int]] = []
        self._steps.append((stack, add, changed))
        former, number, server = self._turn(stack, add)
        for index in self._between(former, number):
            home, owner = self._home[index], self._owner[index]
            if home != server:
                changed.append((index, home, owner))
                self._home[index] = server
                self._own(index, self._owner_at(index, server))

    def back(self) -> None:
        """Take back the last step."""
        stack, add, changed = self._steps.pop()
        self._turn(stack, not add)
        for index, home, owner in reversed(changed):
            self._home[index] = home
            self._own(index, owner)

    def unevenness(self) -> float:
        """The variance of the traffic, but for constants."""
        loads = self._loads[:-1]
        return float(sum(load * load for load in loads)) - sum(loads) ** 2 / len(loads)

    def loads_by_name(self) -> dict[str, int]:
        """Traffic by server."""
        return dict(zip(self._names, self._loads[:-1], strict=True))

    def weights(self) -> dict[str, Sequence[int]]:
        """Virtual nodes by server and sector."""
        return {
            name: self.counts[place * self._sectors : (place + 1) * self._sectors]
            for place, name in enumerate(self._names)
        }

    def _between(self, former: int, number: int) -> Iterator[int]:
        """Partitions behind one node up to another one."""
        while True:
            former = (former + 1) % len(self._server)
            yield from self._arcs.get(former, ())
            if former == number:
                return

    def _turn(self, stack: int, add: bool) -> tuple[int, int, int]:
        """Add or take a node; the nodes between which it changes the home, and the new home."""
        place = self.counts[stack] if add else self.counts[stack] - 1
        number = self._numbers[stack][place]
        at = bisect_left(self._active, number)
        former = self._active[at - 1]
        if add:
            self._active.insert(at, number)
            self.counts[stack] += 1
            return former, number, self._server[number]
        del self._active[at]
        self.counts[stack] -= 1
        return former, number, self._server[self._active[at % len(self._active)]]

    def _owner_at(self, index: int, home: int) -> int:
        """The server of a partition whose home changes."""
        owner, before = self._owner[index], self._owner_before[index]
        if home == owner or home in (self._home_before[index], before):
            return before if home == self._home_before[index] else home
        return home if self._spread.room(self._keys[index], self._names[home]) > 0 else before

    def _own(self, index: int, server: int) -> None:
        owner, before = self._owner[index], self._owner_before[index]
        if server == owner:
            return
        self._loads[owner] -= self._traffic[index]
        self._loads[server] += self._traffic[index]
        self.moved += (owner == before) - (server == before)
        self._owner[index] = server
        if owner < len(self._names):
            self._spread.remove(self._keys[index], self._names[owner])
        if server < len(self._names):
            self._spread.add(self._keys[index], self._names[server])

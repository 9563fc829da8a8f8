"""Targets: which server each partition should have, within the bounds. Pure.

The plan and the choice of weights both ask, so what a change of weights is computed to move is
what it moves. The answer depends on who serves what now: a partition leaves its server only if the
server is to be empty or has too many of the topic, or if a change of the ring gave the partition
another home. One that did not find room at home stays where it is.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from opentalos.model.message import PartitionKey
from opentalos.placement.ring import Ring, node_count, partition_key, point_of
from opentalos.placement.spread import Spread
from opentalos.placement.values import Nodes

PASSES_MAX = 8  # over partitions that wait for room at home; what is left stays where it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Takers:
    """Who may get partitions. ``ring``: of those, to find the next one when a home is full.

    ``fair``: partitions of all topics that each server should have. ``joining``: servers that are
    new on the ring, to be filled up to what is fair.
    """

    ring: Ring
    names: Set[str]
    fair: Mapping[str, int]
    joining: Sequence[str] = ()


def changed_homes(
    partitions: Sequence[PartitionKey], former: Mapping[str, Nodes], ring: Mapping[str, Nodes]
) -> Mapping[PartitionKey, str]:
    """The homes of partitions that had another one on the former ring."""
    if former == ring:
        return {}
    before, now = Ring(former), Ring(ring)
    points = {key: partition_key(key) for key in partitions}
    homes = {key: now.owner(point) for key, point in points.items()}
    return {key: home for key, home in homes.items() if before.owner(points[key]) != home}


def fair(partitions: int, nodes: Mapping[str, Nodes]) -> Mapping[str, int]:
    """How many partitions of all topics each server should have."""
    all_nodes = sum(map(node_count, nodes.values()))
    return {name: partitions * node_count(own) // all_nodes for name, own in nodes.items()}


class Targets:
    """For one use: first ``keep`` and ``place`` every partition, then ``moves``.

    Args: spread: with the shares, still empty.
    """

    def __init__(self, takers: Takers, spread: Spread) -> None:
        self._takers, self._spread = takers, spread
        self._counts: Counter[str] = Counter()
        self._lodging: Counter[tuple[str, str]] = Counter()  # by topic and server
        self.owners: dict[PartitionKey, str] = {}

    def keep(self, key: PartitionKey, owner: str) -> None:
        """The partition is at this server now."""
        self._spread.add(key, owner)
        self._counts[owner] += 1
        self.owners[key] = owner

    def place(self, key: PartitionKey) -> str:
        """The partition has no server now, so it gets one at once."""
        owner = self._next_with_room(key)
        self.keep(key, owner)
        return owner

    def lodge(self, key: PartitionKey, host: str) -> None:
        """The server serves the partition for a while; the partition keeps its place elsewhere."""
        self._lodging[key.topic_uuid, host] += 1

    def host(self, key: PartitionKey) -> str:
        """A server that serves a partition for a while: one with the fewest of the topic."""
        walk = self._takers.ring.walk(partition_key(key))
        host = min(
            walk,
            key=lambda name: self._spread.count(key, name) + self._lodging[key.topic_uuid, name],
        )
        self.lodge(key, host)
        return host

    def moves(
        self, movable: Sequence[PartitionKey], leaving: Set[str], homes: Mapping[PartitionKey, str]
    ) -> Mapping[PartitionKey, str]:
        """The new server of each partition that ought to move; the most urgent come first.

        Args: movable: partitions whose server can hand over. leaving: servers to be emptied.
        homes: of partitions to which the ring gave another one.
        """
        before = {key: self.owners[key] for key in movable}
        found: dict[PartitionKey, str] = {}
        for key, target in self._steps(movable, leaving, homes):
            self._move(key, target)
            found[key] = target
        return {key: target for key, target in found.items() if target != before[key]}

    def _steps(
        self, movable: Sequence[PartitionKey], leaving: Set[str], homes: Mapping[PartitionKey, str]
    ) -> Iterator[tuple[PartitionKey, str]]:
        """Each is carried out before the next one is asked for."""
        for key in movable:
            if self.owners[key] in leaving:
                yield key, self._next_with_room(key)
        away = [
            key
            for key in movable
            if (home := homes.get(key)) in self._takers.names and home not in self._takers.joining
        ]
        # To go home may be all that a crowded server needs, so that is tried before other moves.
        for key in away:
            if self._crowded(key) and self._spread.room(key, homes[key]) > 0:
                yield key, homes[key]
        for key in movable:
            if self._crowded(key) and (target := self._emptiest(key)):
                yield key, target
        yield from self._home(away, homes)
        for name in self._takers.joining:
            yield from self._filled(name, movable)

    def _home(
        self, away: Sequence[PartitionKey], homes: Mapping[PartitionKey, str]
    ) -> Iterator[tuple[PartitionKey, str]]:
        """Each that goes home leaves room that another one may have waited for."""
        for _ in range(PASSES_MAX):
            full = []
            for key in away:
                if self.owners[key] == homes[key]:
                    continue
                if self._spread.room(key, homes[key]) > 0:
                    yield key, homes[key]
                else:
                    full.append(key)
            if len(full) == len(away):
                return
            away = full

    def _filled(
        self, joining: str, movable: Sequence[PartitionKey]
    ) -> Iterator[tuple[PartitionKey, str]]:
        """Fill a joining server up to what is fair, and no topic of it above its fair share.

        First from servers above their fair share of a topic: with more servers the bound falls, so
        those would have to give partitions away at the next join. Then what its own nodes on the
        ring ask for, and other partitions, from servers that have more.
        """
        fair, counts, spread = self._takers.fair, self._counts, self._spread
        if counts[joining] >= fair[joining]:
            return
        points = {key: partition_key(key) for key in movable}
        names = {key: self._takers.ring.owner(points[key]) for key in movable}
        order = sorted(movable, key=lambda key: (names[key] != joining, point_of(points[key])))
        for above in (True, False):
            for key in order:
                owner = self.owners[key]
                if above:
                    gives = spread.fair_room(key, owner) < 0
                else:
                    more = spread.count(key, owner) > spread.count(key, joining)
                    gives = more and counts[owner] > fair.get(owner, 0)
                if gives and owner != joining and spread.fair_room(key, joining) > 0:
                    yield key, joining
                    if counts[joining] >= fair[joining]:
                        return

    def _next_with_room(self, key: PartitionKey) -> str:
        """The first server from the home on that has room for the topic.

        If none has any, since servers that are away keep theirs: the least above its bound.
        """
        spread = self._spread
        second = ""
        for name in self._takers.ring.walk(partition_key(key)):
            if spread.fair_room(key, name) > 0:
                return name
            if not second and spread.room(key, name) > 0:
                second = name
        return second or max(sorted(self._takers.names), key=lambda name: spread.room(key, name))

    def _emptiest(self, key: PartitionKey) -> str:
        """Where one of too many partitions of a topic goes; "": no server has room for it."""
        walk = self._takers.ring.walk(partition_key(key))
        fitting = [name for name in walk if self._spread.room(key, name) > 0]
        room = {name: self._takers.fair[name] - self._counts[name] for name in fitting}
        return max(fitting, key=room.__getitem__, default="")

    def _crowded(self, key: PartitionKey) -> bool:
        return self._spread.room(key, self.owners[key]) < 0

    def _move(self, key: PartitionKey, target: str) -> None:
        source = self.owners[key]
        self._spread.move(key, source, target)
        self._counts[source] -= 1
        self._counts[target] += 1
        self.owners[key] = target

"""Targets: which server each partition should have, within the bounds. Pure.

The plan and the choice of weights both ask, so what a change of weights is computed to move is
what it moves. The answer depends on who serves what now: a partition leaves its server only if the
server is to be empty or has too many of the topic, or if a change of the ring gave the partition
another home. One that did not find room at home stays where it is.
"""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence, Set
from dataclasses import dataclass

from opentalos.model.message import PartitionKey
from opentalos.placement.ring import Ring, by_point, node_count, partition_key
from opentalos.placement.spread import Spread
from opentalos.placement.steps import Pace, Steps
from opentalos.placement.values import Nodes

_Move = tuple[PartitionKey, str]  # to which server

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
    partitions: Sequence[PartitionKey],
    former: Mapping[str, Nodes],
    ring: Mapping[str, Nodes],
    pace: Pace,
) -> Steps[Mapping[PartitionKey, str]]:
    """The homes of partitions that had another one on the former ring."""
    if former == ring:
        return {}
    before = yield from Ring.building(former, pace)
    now = yield from Ring.building(ring, pace)
    homes = {}
    for key in partitions:
        place = partition_key(key)
        home = now.owner(place)
        if before.owner(place) != home:
            homes[key] = home
        if pace.due(2):
            yield
    return homes


def fair(partitions: int, nodes: Mapping[str, Nodes]) -> Mapping[str, int]:
    """How many partitions of all topics each server should have."""
    all_nodes = sum(map(node_count, nodes.values()))
    return {name: partitions * node_count(own) // all_nodes for name, own in nodes.items()}


class Targets:
    """For one use: first ``keep`` and ``place`` every partition, then ``moves``.

    Args: spread: with the shares, still empty. pace: of the plan or the choice of weights.
    """

    def __init__(self, takers: Takers, spread: Spread, pace: Pace) -> None:
        self._takers, self._spread, self._pace = takers, spread, pace
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
    ) -> Steps[Mapping[PartitionKey, str]]:
        """The new server of each partition that ought to move; the most urgent come first.

        Args: movable: partitions whose server can hand over. leaving: servers to be emptied.
        homes: of partitions to which the ring gave another one.
        """
        before: dict[PartitionKey, str] = {}
        found: dict[PartitionKey, str] = {}
        for move in self._moves(movable, leaving, homes):
            if move is None:
                yield
                continue
            key, target = move
            before.setdefault(key, self.owners[key])
            self._move(key, target)
            found[key] = target
        return {key: target for key, target in found.items() if target != before[key]}

    def _moves(
        self, movable: Sequence[PartitionKey], leaving: Set[str], homes: Mapping[PartitionKey, str]
    ) -> Generator[_Move | None, None, None]:
        """Each is carried out before the next one is asked for; None where a step ends."""
        due, servers = self._pace.due, len(self._takers.names)
        away = []
        for key in movable:
            if self.owners[key] in leaving:
                yield key, self._next_with_room(key)
                if due(servers):
                    yield None
            home = homes.get(key)
            if home in self._takers.names and home not in self._takers.joining:
                away.append(key)
            if due():
                yield None
        # To go home may be all that a crowded server needs, so that is tried before other moves.
        for key in away:
            if self._crowded(key) and self._spread.room(key, homes[key]) > 0:
                yield key, homes[key]
            if due(2):
                yield None
        for key in movable:
            if self._crowded(key):
                if target := self._emptiest(key):
                    yield key, target
                if due(2 * servers):
                    yield None
            if due():
                yield None
        yield from self._home(away, homes)
        if self._takers.joining:
            order = yield from by_point(movable, self._pace)
            for name in self._takers.joining:
                yield from self._filled(name, order)

    def _home(
        self, away: Sequence[PartitionKey], homes: Mapping[PartitionKey, str]
    ) -> Generator[_Move | None, None, None]:
        """Each that goes home leaves room that another one may have waited for."""
        for _ in range(PASSES_MAX):
            full = []
            for key in away:
                if self._pace.due():
                    yield None
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
        self, joining: str, order: Sequence[PartitionKey]
    ) -> Generator[_Move | None, None, None]:
        """Fill a joining server up to what is fair, and no topic of it above its fair share.

        First from servers above their fair share of a topic: with more servers the bound falls, so
        those would have to give partitions away at the next join. Then what its own nodes on the
        ring ask for, and other partitions, from servers that have more.

        Args: order: the movable partitions as they lie around the ring.
        """
        fair, counts, spread = self._takers.fair, self._counts, self._spread
        if counts[joining] >= fair[joining]:
            return
        own: list[PartitionKey] = []
        others: list[PartitionKey] = []
        for key in order:
            home = self._takers.ring.owner(partition_key(key))
            (own if home == joining else others).append(key)
            if self._pace.due(2):
                yield None
        for above in (True, False):
            for key in (*own, *others):
                if self._pace.due():
                    yield None
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

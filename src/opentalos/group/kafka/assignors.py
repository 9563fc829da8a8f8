"""Assignors of the server: who of a group reads which partition; pure.

Each takes a time that grows with subscriptions and partitions, not with one times the other, and
calls ``pause`` after each piece of about 1 ms.

Source: Apache Kafka 4.3, KIP-848, for their names. ``uniform`` keeps what members have
as far as it is fair.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import Final, NamedTuple, TypeVar

# To even out members that subscribe to different topics: holders and readers that are looked at.
EVENING_STEPS_MAX: Final = 4_000_000
_PIECE_STEPS: Final = 1_000  # of one pause; they take about 1 ms
T = TypeVar("T")


class TopicPart(NamedTuple):
    """A partition of a topic, by the topic's uuid."""

    topic: str
    partition: int


Target = Mapping[str, frozenset[TopicPart]]  # by member id
Subscriptions = Mapping[str, frozenset[str]]  # topic uuids by member id
Counts = Mapping[str, int]  # partitions by topic uuid
Assignor = Callable[[Subscriptions, Counts, Target, Callable[[], None]], Target]


def no_pause() -> None:
    """Of who has little to assign."""


class _Steps:
    """Counts what is done, and pauses after each piece."""

    def __init__(self, pause: Callable[[], None]) -> None:
        self._pause, self._left = pause, _PIECE_STEPS

    def each(self, items: Iterable[T]) -> Iterator[T]:
        for item in items:
            self._left -= 1
            if self._left <= 0:
                self.pause()
            yield item

    def took(self, steps: int) -> None:
        """So much was done at once by compiled code."""
        self._left -= steps
        if self._left <= 0:
            self.pause()

    def pause(self) -> None:
        self._left = _PIECE_STEPS
        self._pause()


def assign_range(
    subscriptions: Subscriptions,
    counts: Counts,
    before: Target,
    pause: Callable[[], None] = no_pause,
) -> Target:
    """Neighbouring partitions of each topic, so that topics with as many go together."""
    steps = _Steps(pause)
    found: dict[str, set[TopicPart]] = {member: set() for member in subscriptions}
    for topic, members in _readers(subscriptions, counts, steps).items():
        share, more = divmod(counts[topic], len(members))
        first = 0
        for place, member in enumerate(steps.each(members)):
            size = share + (place < more)
            found[member].update(TopicPart(topic, first + n) for n in steps.each(range(size)))
            first += size
    return _frozen(found, steps)


def assign_uniform(
    subscriptions: Subscriptions,
    counts: Counts,
    before: Target,
    pause: Callable[[], None] = no_pause,
) -> Target:
    """As even as subscriptions allow, with few moves."""
    steps = _Steps(pause)
    readers = _readers(subscriptions, counts, steps)
    shares = _Shares(subscriptions, readers, steps)
    shares.keep(counts, before)
    alike = len(set(subscriptions.values())) == 1
    if alike:
        shares.trim(sum(counts[topic] for topic in steps.each(readers)))
    shares.give(counts)
    if not alike:
        shares.even_out()
    return shares.target()


def _readers(subscriptions: Subscriptions, counts: Counts, steps: _Steps) -> dict[str, list[str]]:
    """Members by topic, both in order; topics without partitions are left out."""
    found: dict[str, list[str]] = {}
    for member in sorted(subscriptions):
        for topic in steps.each(subscriptions[member]):
            if topic in found:
                found[topic].append(member)
            elif counts.get(topic, 0) > 0:
                found[topic] = [member]
    steps.took(len(found))
    return {topic: found[topic] for topic in sorted(found)}


def _frozen(found: Mapping[str, set[TopicPart]], steps: _Steps) -> Target:
    frozen: dict[str, frozenset[TopicPart]] = {}
    for member, parts in found.items():
        frozen[member] = frozenset(parts)
        steps.took(1 + len(parts) // 8)
    return frozen


class _Shares:
    """Who has which partitions of each topic, while it is decided."""

    def __init__(
        self, subscriptions: Subscriptions, readers: Mapping[str, list[str]], steps: _Steps
    ) -> None:
        self._subscriptions, self._readers, self._steps = subscriptions, readers, steps
        self._owners: dict[str, dict[int, str]] = {topic: {} for topic in readers}
        self._loads = dict.fromkeys(sorted(subscriptions), 0)

    def keep(self, counts: Counts, before: Target) -> None:
        """What members have and still subscribe to, each partition once."""
        for member in self._loads:
            topics = self._subscriptions[member]
            for topic, partition in self._steps.each(before.get(member, ())):
                if topic not in topics or partition >= counts.get(topic, 0):
                    continue
                if partition not in self._owners[topic]:
                    self._owners[topic][partition] = member
                    self._loads[member] += 1

    def trim(self, total: int) -> None:
        """Take from each what is above its share, the largest shares from those that have most.

        For members that all subscribe to the same. ``total``: partitions of all topics.
        """
        loads = self._loads
        share, more = divmod(total, len(loads))
        ordered = sorted(loads, key=lambda m: (-loads[m], m))
        most = {member: share + (place < more) for place, member in enumerate(ordered)}
        kept = dict.fromkeys(loads, 0)
        for owners in self._owners.values():
            for partition in self._steps.each(sorted(owners)):
                owner = owners[partition]
                if kept[owner] < most[owner]:
                    kept[owner] += 1
                else:
                    del owners[partition]
        self._loads = kept

    def give(self, counts: Counts) -> None:
        """What nobody has to the reader that has least."""
        loads, low = self._loads, list[tuple[int, str]]()
        of: list[str] = []  # members in it
        for topic, members in self._readers.items():
            owners, count = self._owners[topic], counts[topic]
            if len(owners) == count:
                continue
            if members != of:
                of, low = members, [(loads[member], member) for member in self._steps.each(members)]
                heapify(low)
            for partition in self._steps.each(range(count)):
                if partition not in owners:
                    load, member = low[0]
                    owners[partition] = member
                    loads[member] = load + 1
                    heapreplace(low, (load + 1, member))

    def even_out(self) -> None:
        """Move partitions until no single move makes two members more equal.

        First between those that differ most, so that few move twice.
        """
        left, moved = EVENING_STEPS_MAX, True
        gap = max(self._loads.values(), default=0) - min(self._loads.values(), default=0)
        while moved or gap > 1:
            moved, gap = False, max(gap // 2, 1)
            for topic, members in self._readers.items():
                left -= len(members) + len(self._owners[topic])
                if left <= 0:
                    return
                moves = self._even_out_topic(topic, members, gap)
                left -= moves
                moved = moved or moves > 0

    def _even_out_topic(self, topic: str, members: list[str], gap: int) -> int:
        """From the holder that has most to the reader that has least. Returns: moves.

        Nobody who took one gives one: the most falls and the least grows. So the heaps need no
        entry of who took or gave, apart from the one that is next.
        """
        loads, owners, steps = self._loads, self._owners[topic], self._steps
        steps.took(len(members) + len(owners))
        least = min([loads[member] for member in members])
        holders = set(owners.values())
        if max([loads[member] for member in holders]) <= least + gap:
            return 0
        held: dict[str, list[int]] = {}
        for partition in steps.each(sorted(owners)):
            held.setdefault(owners[partition], []).append(partition)
        low = [(loads[member], member) for member in steps.each(members)]
        high = [(-loads[member], member) for member in held]
        heapify(low)
        heapify(high)
        moves = 0
        for _ in steps.each(owners):
            giver, taker = high[0][1], low[0][1]
            if loads[giver] <= loads[taker] + gap:
                break
            owners[held[giver].pop()] = taker
            loads[giver] -= 1
            loads[taker] += 1
            moves += 1
            heapreplace(low, (loads[taker], taker))
            if held[giver]:
                heapreplace(high, (-loads[giver], giver))
            elif len(high) > 1:
                heappop(high)
            else:
                break
        return moves

    def target(self) -> Target:
        found: dict[str, set[TopicPart]] = {member: set() for member in self._loads}
        for topic, owners in self._owners.items():
            for partition, member in self._steps.each(owners.items()):
                found[member].add(TopicPart(topic, partition))
        return _frozen(found, self._steps)


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}
DEFAULT_ASSIGNOR: Final = "uniform"

"""Assignors of the server: who of a group reads which partition; pure.

Source: Apache Kafka 4.3, KIP-848, for their names. ``uniform`` keeps what members have
as far as it is fair.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

MOVES_MAX: Final = 1_000  # to even out members that subscribe to different topics


class TopicPart(NamedTuple):
    """A partition of a topic, by the topic's uuid."""

    topic: str
    partition: int


Target = Mapping[str, frozenset[TopicPart]]  # by member id
Subscriptions = Mapping[str, frozenset[str]]  # topic uuids by member id
Counts = Mapping[str, int]  # partitions by topic uuid
Assignor = Callable[[Subscriptions, Counts, Target], Target]


def assign_range(subscriptions: Subscriptions, counts: Counts, before: Target) -> Target:
    """Neighbouring partitions of each topic, so that topics with as many go together."""
    found: dict[str, set[TopicPart]] = {member: set() for member in subscriptions}
    for topic in sorted(counts):
        members = sorted(m for m, topics in subscriptions.items() if topic in topics)
        if not members:
            continue
        share, more = divmod(counts[topic], len(members))
        first = 0
        for place, member in enumerate(members):
            size = share + (place < more)
            found[member].update(TopicPart(topic, first + n) for n in range(size))
            first += size
    return {member: frozenset(parts) for member, parts in found.items()}


def assign_uniform(subscriptions: Subscriptions, counts: Counts, before: Target) -> Target:
    """As even as subscriptions allow, with few moves."""
    members = sorted(subscriptions)
    found: dict[str, set[TopicPart]] = {}
    taken: set[TopicPart] = set()
    for member in members:
        topics = subscriptions[member]
        kept = {
            part
            for part in before.get(member, ())
            if part.topic in topics and part.partition < counts.get(part.topic, 0)
        } - taken
        found[member] = kept
        taken |= kept
    wanted = {topic for topics in subscriptions.values() for topic in topics}
    parts = [
        TopicPart(topic, number)
        for topic in sorted(wanted)
        for number in range(counts.get(topic, 0))
    ]
    if len(set(subscriptions.values())) == 1:
        _trim(found, len(parts))
    taken = set().union(*found.values()) if found else set()
    for part in parts:
        if part not in taken:
            able = (m for m in members if part.topic in subscriptions[m])
            found[min(able, key=lambda m: len(found[m]))].add(part)
    if len(set(subscriptions.values())) > 1:
        _even_out(found, subscriptions)
    return {member: frozenset(parts) for member, parts in found.items()}


def _trim(found: dict[str, set[TopicPart]], total: int) -> None:
    """Take from each what is above its share, the largest shares from those that have most."""
    share, more = divmod(total, len(found))
    for place, member in enumerate(sorted(found, key=lambda m: (-len(found[m]), m))):
        most = share + (place < more)
        for part in sorted(found[member])[most:]:
            found[member].remove(part)


def _even_out(found: dict[str, set[TopicPart]], subscriptions: Subscriptions) -> None:
    for _ in range(MOVES_MAX):
        ordered = sorted(found, key=lambda m: (len(found[m]), m))
        for low in ordered:
            giver = next(
                (
                    (high, part)
                    for high in reversed(ordered)
                    if len(found[high]) > len(found[low]) + 1
                    for part in sorted(found[high], reverse=True)
                    if part.topic in subscriptions[low]
                ),
                None,
            )
            if giver is not None:
                found[giver[0]].remove(giver[1])
                found[low].add(giver[1])
                break
        else:
            return


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}
DEFAULT_ASSIGNOR: Final = "uniform"

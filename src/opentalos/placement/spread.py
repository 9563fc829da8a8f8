"""Spread: how many partitions of one topic a server may have, and how many it has. Pure.

Consistent hashing with bounded loads, for each topic: the ring names a partition's server, and a
server that has enough of the topic is passed over for the next one on the ring. So no topic depends
on luck: of 12 partitions on three servers, each server gets four.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from opentalos.model.message import PartitionKey
from opentalos.placement.ring import node_count
from opentalos.placement.values import Nodes

# Of one topic, a server has at most so many times its share, rounded up; as a ratio of integers,
# because every machine must round alike.
_BOUND, _BOUND_OF = 5, 4


class Share(NamedTuple):
    """Partitions of one topic: ``fair`` by weight, rounded up, and ``most`` that a server keeps.

    A partition that needs a server gets one with less than its fair share. Between the two is room
    for joining servers, other weights and servers that leave, so that these move little else.
    """

    fair: int
    most: int


def shares(partitions: int, nodes: Mapping[str, Nodes]) -> Mapping[str, Share]:
    """Each server's share of a topic.

    It follows the weight. A weight by sector was chosen by traffic, not by size, so it never lowers
    the share below an equal one: light servers would have to give away more partitions than the
    weights were meant to move.
    """
    all_nodes = sum(map(node_count, nodes.values()))
    found = {}
    for name, own in nodes.items():
        part, whole = node_count(own), all_nodes
        if not isinstance(own, int) and part * len(nodes) < all_nodes:
            part, whole = 1, len(nodes)
        found[name] = Share(
            fair=-(-partitions * part // whole),
            most=-(-_BOUND * partitions * part // (_BOUND_OF * whole)),
        )
    return found


class Spread:
    """Counts partitions by topic and server, against the shares of these servers.

    A server that is not among ``nodes`` has no share.
    """

    def __init__(self, partitions: Iterable[PartitionKey], nodes: Mapping[str, Nodes]) -> None:
        self._nodes = nodes
        self._sizes = Counter(key.topic_uuid for key in partitions)
        self._shares: dict[int, Mapping[str, Share]] = {}  # by a topic's size, when first needed
        self._counts = defaultdict[str, Counter[str]](Counter)

    def count(self, key: PartitionKey, server: str) -> int:
        """How many partitions of the topic the server has."""
        return self._counts[key.topic_uuid][server]

    def fair_room(self, key: PartitionKey, server: str) -> int:
        """How many more the server may have up to its fair share; may be negative."""
        return self._share(key, server).fair - self.count(key, server)

    def room(self, key: PartitionKey, server: str) -> int:
        """How many more the server may have at most; negative: it has too many."""
        return self._share(key, server).most - self.count(key, server)

    def add(self, key: PartitionKey, server: str) -> None:
        """The server has the partition."""
        self._counts[key.topic_uuid][server] += 1

    def remove(self, key: PartitionKey, server: str) -> None:
        """The server has it no more."""
        self._counts[key.topic_uuid][server] -= 1

    def move(self, key: PartitionKey, source: str, target: str) -> None:
        """The partition goes from one server to another."""
        self.remove(key, source)
        self.add(key, target)

    def _share(self, key: PartitionKey, server: str) -> Share:
        size = self._sizes[key.topic_uuid]
        found = self._shares.get(size)
        if found is None:
            found = self._shares[size] = shares(size, self._nodes)
        return found.get(server, _NO_SHARE)


_NO_SHARE = Share(0, 0)

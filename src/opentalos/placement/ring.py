"""The hash ring: virtual nodes of servers, and who owns a key. Pure, the same on every machine.

A point of the ring is 64 bits of BLAKE2b. The ring has ``SECTORS`` equal sectors, and a server's
virtual nodes are counted by sector: node ``i`` of a sector lies at the same point whatever the
count, so a changed count moves only the arcs of the nodes that came or went. One number for a
server means that many nodes, spread evenly over the sectors.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

from opentalos.model.message import PartitionKey
from opentalos.placement.steps import Pace, Steps, finished
from opentalos.placement.values import Nodes

SECTORS = 32  # finer ones let weights move fewer partitions at once; measured in the bench
KEYS_CACHED_MAX = 1 << 17  # points of keys; a plan asks for all partitions again and again
NODES_CACHED_MAX = 1 << 13  # points of a server's nodes in one sector; of 256 servers
_POINT_BYTES = 8
_POINTS_PER_DIGEST = 8  # a BLAKE2b digest has 64 bytes
_SECTOR_POINTS = (1 << 64) // SECTORS
_NODES_AN_ITEM = 2  # of a step: a node costs less than a partition


@lru_cache(KEYS_CACHED_MAX)
def point_of(key: str) -> int:
    """Where a key lies on the ring, 0 to 2**64 - 1."""
    return int.from_bytes(blake2b(key.encode(), digest_size=_POINT_BYTES).digest(), "big")


def by_sector(nodes: Nodes) -> Sequence[int]:
    """Virtual nodes in each sector. Raises: ValueError: no or negative numbers."""
    if isinstance(nodes, int):
        each, more = divmod(nodes, SECTORS)
        nodes = [each + (sector < more) for sector in range(SECTORS)]
    if len(nodes) != SECTORS or min(nodes) < 0 or not any(nodes):
        raise ValueError(f"need {SECTORS} counts of virtual nodes, or one above 0: {nodes}")
    return nodes


def node_count(nodes: Nodes) -> int:
    """Virtual nodes in all sectors together."""
    return nodes if isinstance(nodes, int) else sum(nodes)


@lru_cache(NODES_CACHED_MAX)
def node_points(server: str, sector: int, count: int) -> Sequence[int]:
    """Where the first ``count`` virtual nodes of a server in a sector lie."""
    return tuple(_node_points(server, sector, count))


def _node_points(server: str, sector: int, count: int) -> Iterator[int]:
    start = sector * _SECTOR_POINTS
    for first in range(0, count, _POINTS_PER_DIGEST):
        digest = blake2b(f"{first}@{sector}@{server}".encode()).digest()
        for place in range(min(_POINTS_PER_DIGEST, count - first)):
            at = place * _POINT_BYTES
            point = int.from_bytes(digest[at : at + _POINT_BYTES], "big")
            yield start + point % _SECTOR_POINTS


def partition_key(partition: PartitionKey) -> str:
    """What is looked up on the ring for a partition."""
    return f"{partition.topic_uuid}/{partition.partition}"


def by_point(partitions: Sequence[PartitionKey], pace: Pace) -> Steps[Sequence[PartitionKey]]:
    """Partitions as they lie around the ring."""
    sectors: list[list[tuple[int, int]]] = [[] for _ in range(SECTORS)]
    for number, key in enumerate(partitions):
        point = point_of(partition_key(key))
        sectors[point // _SECTOR_POINTS].append((point, number))
        if pace.due():
            yield
    order: list[PartitionKey] = []
    for found in sectors:
        order += [partitions[number] for _, number in sorted(found)]
        if pace.due(len(found)):
            yield
    return order


class Ring:
    """Servers by virtual nodes; a key belongs to the first node at or after its point.

    Args: servers: virtual nodes by server; at least one server, each with at least one node.
    """

    def __init__(self, servers: Mapping[str, Nodes]) -> None:
        finished(self._fill(servers, Pace()))

    @classmethod
    def building(cls, servers: Mapping[str, Nodes], pace: Pace) -> Steps["Ring"]:
        """The same ring, made in steps."""
        ring = cls.__new__(cls)
        yield from ring._fill(servers, pace)
        return ring

    def _fill(self, servers: Mapping[str, Nodes], pace: Pace) -> Steps[None]:
        if not servers:
            raise ValueError("a ring needs a server")
        counts = {server: by_sector(nodes) for server, nodes in servers.items()}
        self._members = len(servers)
        self._points: list[int] = []
        self._servers: list[str] = []
        for sector in range(SECTORS):  # the points of one are all below those of the next
            nodes = sorted(
                (point, server)
                for server, by_sectors in counts.items()
                for point in node_points(server, sector, by_sectors[sector])
            )
            self._points += [point for point, _ in nodes]
            self._servers += [server for _, server in nodes]
            if pace.due(len(nodes) // _NODES_AN_ITEM):
                yield
        self._servers.append(self._servers[0])  # beyond the last node the ring begins again

    def owner(self, key: str) -> str:
        """The server of a key."""
        return self._servers[bisect_left(self._points, point_of(key))]

    def walk(self, key: str) -> Iterator[str]:
        """All servers, each once, in the order in which the ring meets them from a key on."""
        first = bisect_left(self._points, point_of(key))
        met = set()
        for place in range(first, first + len(self._points)):
            server = self._servers[place % len(self._points)]
            if server not in met:
                met.add(server)
                yield server
                if len(met) == self._members:
                    return

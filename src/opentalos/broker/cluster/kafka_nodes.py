"""KafkaNodes: the servers as clients of Kafka see them: by number, with the address of that port.

A number follows from the server's name alone, so all servers agree on it and it survives restarts.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from opentalos.broker.cluster.cluster_ownership import (
    ClusterOwnership,
    coordinator_name,
    owner_names,
)
from opentalos.broker.cluster.state import ClusterState
from opentalos.broker.groups.group_names import plain_name
from opentalos.model.address import split_address

NUMBER_BITS = 30  # Java clients also use 2**31 - 1 - number, which must be no other node's
UNKNOWN = -1


class KafkaNode(NamedTuple):
    """A server that clients of Kafka can reach."""

    number: int
    name: str
    host: str
    port: int


class KafkaNodes(Protocol):
    """Answers from memory, by the records that this server knows.

    ``own``: this server's number. ``nodes``: every server with a Kafka port, by name. ``leaders``:
    number of each partition's server, UNKNOWN if there is none or it has no such port.
    ``coordinator`` of a consumer group; None as with ``leaders``. ``at``: the node whose HTTP
    address a NotOwner names.
    """

    @property
    def own(self) -> int: ...
    def nodes(self) -> Sequence[KafkaNode]: ...
    def leaders(self, topic_uuid: str, partitions: int) -> Sequence[int]: ...
    def coordinator(self, group: str) -> KafkaNode | None: ...
    def at(self, address: str) -> KafkaNode | None: ...


def node_number(name: str) -> int:
    """A server's number, at least 0."""
    digest = hashlib.sha256(name.encode()).digest()
    return int.from_bytes(digest[:4], "big") >> (32 - NUMBER_BITS)


def node_of(name: str, address: str) -> KafkaNode | None:
    """The node of a server at HOST:PORT; None: it has no Kafka port."""
    if not address:
        return None
    host, port = split_address(address)
    return KafkaNode(node_number(name), name, host, port)


class SingleKafkaNode:
    """The only server leads everything."""

    def __init__(self, name: str) -> None:
        self._name, self.own, self._address = name, node_number(name), ""

    def advertise(self, address: str) -> None:
        """The port is known now."""
        self._address = address

    def nodes(self) -> Sequence[KafkaNode]:
        """This server."""
        node = node_of(self._name, self._address)
        return [] if node is None else [node]

    def leaders(self, topic_uuid: str, partitions: int) -> Sequence[int]:
        """This server, for all of them."""
        return [self.own] * partitions

    def coordinator(self, group: str) -> KafkaNode | None:
        """This server."""
        return node_of(self._name, self._address)

    def at(self, address: str) -> KafkaNode | None:
        """This server."""
        return node_of(self._name, self._address)


class ClusterKafkaNodes:
    """See KafkaNodes."""

    def __init__(self, state: ClusterState, ownership: ClusterOwnership, me: str) -> None:
        self._state, self._ownership, self.own = state, ownership, node_number(me)

    def nodes(self) -> Sequence[KafkaNode]:
        """See KafkaNodes."""
        return sorted(self._by_name().values(), key=lambda node: node.name)

    def leaders(self, topic_uuid: str, partitions: int) -> Sequence[int]:
        """See KafkaNodes."""
        numbers = {name: node.number for name, node in self._by_name().items()}
        names = owner_names(self._ownership, topic_uuid, partitions)
        return [numbers.get(name, UNKNOWN) for name in names]

    def coordinator(self, group: str) -> KafkaNode | None:
        """See KafkaNodes. Raises: PartitionNotServing: no server is known to be a member."""
        return self._by_name().get(coordinator_name(self._ownership, plain_name(group)))

    def at(self, address: str) -> KafkaNode | None:
        """See KafkaNodes."""
        for name, record in {**self._state.expected(), **self._state.live()}.items():
            if address and record.address == address:
                return node_of(name, record.kafka)
        return None

    def _by_name(self) -> dict[str, KafkaNode]:
        """Also of servers that are expected to register again."""
        records = {**self._state.expected(), **self._state.live()}
        found = {name: node_of(name, record.kafka) for name, record in records.items()}
        return {name: node for name, node in found.items() if node is not None}

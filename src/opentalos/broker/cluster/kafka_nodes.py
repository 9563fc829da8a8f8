"""KafkaNodes: the servers as clients of Kafka see them: by number, with the address of that port.

A number follows from the server's name alone, so all servers agree on it and it survives restarts.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from opentalos.broker.cluster.cluster_ownership import ClusterOwnership, coordinator_name
from opentalos.broker.cluster.ownership import NO_EPOCH, LeaderEpochs
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


class Leaders(NamedTuple):
    """Of the partitions of a topic: ``numbers`` of their servers, UNKNOWN without one."""

    epoch: int
    numbers: Sequence[int]


class Leader(NamedTuple):
    """Of one partition; None: nobody, or a server without a Kafka port."""

    epoch: int
    node: KafkaNode | None


class KafkaNodes(Protocol):
    """Answers from memory, by the records that this server knows.

    ``own``: this server's number. ``nodes``: every server with a Kafka port, by name. ``leaders``
    of all partitions of a topic, ``leader`` of one. ``coordinator`` of a consumer group; None if
    there is none or it has no such port.
    """

    @property
    def own(self) -> int: ...
    def nodes(self) -> Sequence[KafkaNode]: ...
    def leaders(self, topic_uuid: str, partitions: int) -> Leaders: ...
    def leader(self, topic_uuid: str, partition: int) -> Leader: ...
    def coordinator(self, group: str) -> KafkaNode | None: ...


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

    def __init__(self, name: str, epochs: LeaderEpochs) -> None:
        self._name, self.own, self._address = name, node_number(name), ""
        self._epochs = epochs

    def advertise(self, address: str) -> None:
        """The port is known now."""
        self._address = address

    def nodes(self) -> Sequence[KafkaNode]:
        """This server."""
        node = node_of(self._name, self._address)
        return [] if node is None else [node]

    def leaders(self, topic_uuid: str, partitions: int) -> Leaders:
        """This server, for all of them."""
        return Leaders(self._epochs.of(topic_uuid), [self.own] * partitions)

    def leader(self, topic_uuid: str, partition: int) -> Leader:
        """This server."""
        return Leader(self._epochs.of(topic_uuid), node_of(self._name, self._address))

    def coordinator(self, group: str) -> KafkaNode | None:
        """This server."""
        return node_of(self._name, self._address)


class ClusterKafkaNodes:
    """See KafkaNodes."""

    def __init__(self, state: ClusterState, ownership: ClusterOwnership, me: str) -> None:
        self._state, self._ownership, self.own = state, ownership, node_number(me)

    def nodes(self) -> Sequence[KafkaNode]:
        """See KafkaNodes."""
        return sorted(self._by_name().values(), key=lambda node: node.name)

    def leaders(self, topic_uuid: str, partitions: int) -> Leaders:
        """See KafkaNodes."""
        nodes, record = self._by_name(), self._state.assignment(topic_uuid)
        if record is None:
            return Leaders(NO_EPOCH, [UNKNOWN] * partitions)
        names = record.owners[:partitions]
        numbers = [nodes[name].number if name in nodes else UNKNOWN for name in names]
        return Leaders(record.number, numbers + [UNKNOWN] * (partitions - len(numbers)))

    def leader(self, topic_uuid: str, partition: int) -> Leader:
        """See KafkaNodes."""
        record = self._state.assignment(topic_uuid)
        if record is None or partition >= len(record.owners):
            return Leader(NO_EPOCH, None)
        return Leader(record.number, self._by_name().get(record.owners[partition]))

    def coordinator(self, group: str) -> KafkaNode | None:
        """See KafkaNodes. Raises: PartitionNotServing: no server is known to be a member."""
        return self._by_name().get(coordinator_name(self._ownership, plain_name(group)))

    def _by_name(self) -> dict[str, KafkaNode]:
        """Also of servers that are expected to register again."""
        records = {**self._state.expected(), **self._state.live()}
        found = {name: node_of(name, record.kafka) for name, record in records.items()}
        return {name: node for name, node in found.items() if node is not None}

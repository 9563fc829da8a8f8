"""Ownership: which server serves a partition, a consumer group or a table shard, in which epoch.

Use cases ask it before they touch any of them; gateways forward on its NotOwner.
"""

from collections.abc import Sequence
from typing import Protocol

from opentalos.broker.cluster.records import number_after
from opentalos.model.message import PartitionKey

NO_EPOCH = -1


class Ownership(Protocol):
    """Answers from memory, by the published assignment; it never gives the right to write.

    ``check``, ``check_group`` and ``check_shard`` raise NotOwner with the other server's address
    (hot path); ``check_shard`` raises PartitionNotServing when this server's own session has
    lapsed, the others continue by the records of before then. ``others`` are
    the addresses of the other servers that are members now. ``addresses`` has one
    address per partition of a topic, for schedule info; this server's own if no owner is known.
    ``owner`` is the address of the other server that serves the partition, empty: this one.
    ``catch_up`` reads a topic's records (empty: only the ring) again, because a peer knows a newer
    state; after it returns, answers are at least as new as the call. ``settled`` waits, within a
    bound, until every partition of a new or grown topic is assigned. ``leads``: whether this
    server does the cluster's background work (complete deletions, end shrinks) now.
    """

    def check(self, topic_uuid: str, partition: int) -> None: ...
    def check_group(self, group: str) -> None: ...
    def check_shard(self, table_uuid: str, number: int) -> None: ...
    def others(self) -> Sequence[str]: ...
    def owner(self, topic_uuid: str, partition: int) -> str: ...
    def addresses(self, topic_uuid: str, partitions: int) -> Sequence[str]: ...
    async def catch_up(self, topic_uuid: str) -> None: ...
    async def settled(self, topic_uuid: str, partitions: int) -> None: ...
    def leads(self) -> bool: ...


class LeaderEpochs(Protocol):
    """Epochs in which servers lead the partitions of a topic, for clients that name the one they
    know. By them a client learns that its server is another one by now; they protect no data.

    ``of``: the present one, NO_EPOCH if there is none. ``check`` raises LeaderEpochFenced for an
    epoch before the one in which this server began to serve the partition, LeaderEpochUnknown for
    one after the present. ``confirm`` reads the topic's record again if the asked epoch is not
    known here, within a bound.
    """

    def of(self, topic_uuid: str) -> int: ...
    def check(self, key: PartitionKey, asked: int) -> None: ...
    async def confirm(self, topic_uuid: str, asked: int) -> None: ...


class SingleServerEpochs:
    """One epoch since the start of the only server, newer than those before it.

    Nothing is refused: there is no other server, and the clock may have been set back.
    """

    def __init__(self, wall_ms: int) -> None:
        self._epoch = number_after(0, wall_ms)

    def of(self, topic_uuid: str) -> int:
        """The same for all topics."""
        return self._epoch

    def check(self, key: PartitionKey, asked: int) -> None:
        """Every epoch fits."""

    async def confirm(self, topic_uuid: str, asked: int) -> None:
        """There is nothing newer to know."""


class SingleServerOwnership:
    """The only server owns everything. ``address``: published to clients."""

    def __init__(self, address: str) -> None:
        self.address = address

    def advertise(self, address: str) -> None:
        """The port is known: clients are sent there."""
        self.address = address

    def check(self, topic_uuid: str, partition: int) -> None:
        """Every partition is served here."""

    def check_group(self, group: str) -> None:
        """Every group is coordinated here."""

    def check_shard(self, table_uuid: str, number: int) -> None:
        """Every shard is owned here."""

    def others(self) -> Sequence[str]:
        """None."""
        return ()

    def owner(self, topic_uuid: str, partition: int) -> str:
        """This server."""
        return ""

    def addresses(self, topic_uuid: str, partitions: int) -> Sequence[str]:
        """This server, for all of them."""
        return [self.address] * partitions

    async def catch_up(self, topic_uuid: str) -> None:
        """There is nothing newer to know."""

    async def settled(self, topic_uuid: str, partitions: int) -> None:
        """Nothing has to be assigned."""

    def leads(self) -> bool:
        """Always."""
        return True

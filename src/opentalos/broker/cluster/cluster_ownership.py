"""ClusterOwnership: who serves what, from this server's copy of the control records.

The broker asks it before each operation on a partition, consumer group or table shard. It only
routes requests: the right to write comes from the manifest, so an outdated copy costs a forward and
never a second writer (promise I2).
"""

import asyncio
from collections.abc import Callable, Sequence

from opentalos.broker.cluster.records import ASSIGNMENT, RING, SERVERS, ServerRecord
from opentalos.broker.cluster.state import ClusterState
from opentalos.model.errors import NotOwner, PartitionNotServing, TalosError
from opentalos.placement.ring import Ring

SETTLED_WAIT_S = 2.0  # for the controller to place a new topic; below a client's own timeout
_SETTLED_LOOK_S = 0.02
_LAPSED = "this server has lost its session with the cluster"
_NOT_SERVING = "this server is not serving its partitions now"


class ClusterOwnership:
    """See Ownership. Answers come from caches that a changed record empties.

    ``Cluster`` sets both: ``serving`` from the start to the end of this server's service, ``away``
    while its own session is not valid. The records are those of before then, so requests take the
    ways they took; only shards are refused.
    """

    def __init__(self, state: ClusterState, me: ServerRecord) -> None:
        self._state, self._me = state, me
        self.serving = self.away = False
        self.leading: Callable[[], bool] = lambda: False  # asks this server's controller
        self._owners: dict[str, tuple[str, ...]] = {}  # by topic uuid
        self._addresses: dict[str, str] = {}  # by server name
        self._ring: Ring | None = None

    def record_changed(self, path: str) -> None:
        """A control record is about to change: forget what was derived from it."""
        kind, _, name = path.partition("/")
        if kind == ASSIGNMENT:
            self._owners.pop(name, None)
        elif kind == SERVERS:
            self._addresses.clear()
        elif path == RING:
            self._ring = None

    def check(self, topic_uuid: str, partition: int) -> None:
        """See Ownership; hot path."""
        owners = self._owners.get(topic_uuid) or self._owners_of(topic_uuid)
        if partition >= len(owners) or owners[partition] != self._me.name or not self.serving:
            raise self._refusal(topic_uuid, partition)

    def check_group(self, group: str) -> None:
        """See Ownership."""
        owner = coordinator_name(self, group)
        if owner != self._me.name:
            address = self._route(owner)
            raise NotOwner(f"consumer group {group} is coordinated by {owner}", address)

    def check_shard(self, table_uuid: str, number: int) -> None:
        """See Ownership; by name on the ring, as consumer groups are."""
        if self.away:
            raise PartitionNotServing(_LAPSED)
        owner = self._on_ring(f"slice/{table_uuid}/{number}")
        if owner != self._me.name:
            address = self._route(owner)
            raise NotOwner(f"shard {number} of table {table_uuid} is owned by {owner}", address)

    def others(self) -> Sequence[str]:
        """See Ownership."""
        live = self._state.live().values()
        return [server.address for server in live if server.name != self._me.name]

    def owner(self, topic_uuid: str, partition: int) -> str:
        """See Ownership."""
        name = self._owner_name(topic_uuid, partition)
        return "" if name == self._me.name else self._route(name)

    def addresses(self, topic_uuid: str, partitions: int) -> Sequence[str]:
        """See Ownership."""
        names = (self._owner_name(topic_uuid, partition) for partition in range(partitions))
        return [self._route(name) or self._me.address for name in names]

    async def catch_up(self, topic_uuid: str) -> None:
        """See Ownership. Raises: Unavailable."""
        await self._state.refresh(topic_uuid)

    async def settled(self, topic_uuid: str, partitions: int) -> None:
        """See Ownership."""
        deadline_s = asyncio.get_running_loop().time() + SETTLED_WAIT_S
        while not all(self._owner_name(topic_uuid, number) for number in range(partitions)):
            if asyncio.get_running_loop().time() >= deadline_s:
                return
            await asyncio.sleep(_SETTLED_LOOK_S)

    def leads(self) -> bool:
        """See Ownership."""
        return self.serving and self.leading()

    def _owner_name(self, topic_uuid: str, partition: int) -> str:
        """The server to which a partition is assigned; empty: none."""
        owners = self._owners.get(topic_uuid) or self._owners_of(topic_uuid)
        return owners[partition] if partition < len(owners) else ""

    def address_of(self, name: str) -> str:
        """The address of a server; empty if it is not registered now."""
        if not self._addresses:
            live = self._state.live().values()
            self._addresses = {server.name: server.address for server in live}
        return self._addresses.get(name, "")

    def _route(self, name: str) -> str:
        """Where to send a request; also to a server that is expected to register again."""
        address = self.address_of(name)
        if not address:
            expected = self._state.expected().get(name)
            address = expected.address if expected is not None else ""
        return address

    def refusal(self, topic_uuid: str, partition: int) -> TalosError | None:
        """What ``check`` raises; None: it is served here."""
        if self.serving and self._owner_name(topic_uuid, partition) == self._me.name:
            return None
        return self._refusal(topic_uuid, partition)

    def _refusal(self, topic_uuid: str, partition: int) -> TalosError:
        if not self.serving:
            return PartitionNotServing(_NOT_SERVING)
        name = self._owner_name(topic_uuid, partition)
        where = f"topic {topic_uuid} partition {partition}"
        if not name:
            record = self._state.assignment(topic_uuid)
            if record is not None and partition < len(record.owners):
                return PartitionNotServing(f"no server serves {where} yet")
            # Not seen here yet: the server that forwarded the request may have a newer copy.
            return NotOwner(f"{where} is not assigned yet", "", topic_uuid)
        return NotOwner(f"{where} is served by {name}", self._route(name), topic_uuid)

    def _owners_of(self, topic_uuid: str) -> tuple[str, ...]:
        record = self._state.assignment(topic_uuid)
        if record is None:
            return ()
        self._owners[topic_uuid] = record.owners
        return record.owners

    def _on_ring(self, name: str) -> str:
        """The server that the ring names. Raises: PartitionNotServing."""
        if not self.serving:
            raise PartitionNotServing(_NOT_SERVING)
        ring = self._ring or self._load_ring()
        if ring is None:
            raise PartitionNotServing("no server is a member of the cluster yet")
        return ring.owner(name)

    def _load_ring(self) -> Ring | None:
        record = self._state.ring
        if record is not None and record.servers:
            self._ring = Ring(record.servers)
        return self._ring


def coordinator_name(ownership: ClusterOwnership, group: str) -> str:
    """The server that coordinates the groups of this name. Raises: PartitionNotServing."""
    return ownership._on_ring(f"group/{group}")


def owner_names(ownership: ClusterOwnership, topic_uuid: str, partitions: int) -> Sequence[str]:
    """The server of each partition; empty: none is assigned."""
    return [ownership._owner_name(topic_uuid, partition) for partition in range(partitions)]


def own_partitions(ownership: ClusterOwnership, topic_uuid: str) -> frozenset[int]:
    """The partitions of a topic that are assigned to this server."""
    owners, me = ownership._owners_of(topic_uuid), ownership._me.name
    return frozenset(number for number, name in enumerate(owners) if name == me)

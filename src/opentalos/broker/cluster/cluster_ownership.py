"""ClusterOwnership: who serves what in which epoch, by this server's copy of the records.

The broker asks it before each operation on a partition, consumer group or table shard. It only
routes requests: the right to write comes from the manifest, so an outdated copy costs a forward and
never a second writer (promise I2).
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence

from opentalos.broker.cluster.ownership import NO_EPOCH
from opentalos.broker.cluster.records import ASSIGNMENT, RING, SERVERS, ServerRecord
from opentalos.broker.cluster.state import ClusterState, assignment_path
from opentalos.model.errors import (
    LeaderEpochFenced,
    LeaderEpochUnknown,
    NotOwner,
    PartitionNotServing,
    TalosError,
)
from opentalos.model.message import PartitionKey
from opentalos.placement.ring import Ring

SETTLED_WAIT_S = 2.0  # for the controller to place a new topic; below a client's own timeout
_SETTLED_LOOK_S = 0.02
# Between two reads of a topic's record because of epochs that clients name: they may name any.
CONFIRM_INTERVAL_S = 0.02
CONFIRMED_MAX = 10_000  # topics
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


class ClusterLeaderEpochs:
    """See LeaderEpochs. The epoch of all partitions of a topic is the number of its assignment.

    So all servers that know the same record know the same epoch, with the leader of each partition
    in it. ``Handover`` says which partitions came and left.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._since: dict[PartitionKey, int] = {}  # what this server serves, and since when
        self._seen: dict[str, int] = {}  # epoch by topic, when it was compared last
        self._confirmed_s: dict[str, float] = {}  # by topic

    def changed(
        self, topic_uuid: str, came: Iterable[PartitionKey], left: Iterable[PartitionKey]
    ) -> None:
        """The topic's record is another one, by which partitions arrived here or left.

        Records in between may not have been seen here, and clients may know one of them. So a
        partition came right after the last record without it.
        """
        for key in left:
            self._since.pop(key, None)
        before, epoch = self._seen.pop(topic_uuid, NO_EPOCH), self.of(topic_uuid)
        if epoch != NO_EPOCH:
            self._seen[topic_uuid] = epoch
        for key in came:
            self._since[key] = before + 1

    def of(self, topic_uuid: str) -> int:
        """See LeaderEpochs."""
        record = self._state.assignment(topic_uuid)
        return NO_EPOCH if record is None else record.number

    def check(self, key: PartitionKey, asked: int) -> None:
        """See LeaderEpochs."""
        if asked < 0:
            return
        where = f"topic {key.topic_uuid} partition {key.partition}"
        if asked > self.of(key.topic_uuid):
            raise LeaderEpochUnknown(f"leader epoch {asked} of {where} is not known here yet")
        if asked < self._since.get(key, 0):
            raise LeaderEpochFenced(f"leader epoch {asked} of {where} is over")

    async def confirm(self, topic_uuid: str, asked: int) -> None:
        """See LeaderEpochs. Without an answer the epoch stays unknown."""
        if asked <= self.of(topic_uuid):
            return
        now_s = asyncio.get_running_loop().time()
        if now_s < self._confirmed_s.get(topic_uuid, float("-inf")) + CONFIRM_INTERVAL_S:
            return
        if len(self._confirmed_s) >= CONFIRMED_MAX:
            self._confirmed_s.clear()
        self._confirmed_s[topic_uuid] = now_s
        with contextlib.suppress(TalosError):
            await self._state.assignments.refresh(assignment_path(topic_uuid))


def coordinator_name(ownership: ClusterOwnership, group: str) -> str:
    """The server that coordinates the groups of this name. Raises: PartitionNotServing."""
    return ownership._on_ring(f"group/{group}")


def own_partitions(ownership: ClusterOwnership, topic_uuid: str) -> frozenset[int]:
    """The partitions of a topic that are assigned to this server."""
    owners, me = ownership._owners_of(topic_uuid), ownership._me.name
    return frozenset(number for number, name in enumerate(owners) if name == me)

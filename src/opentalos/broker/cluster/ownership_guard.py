"""ClusterOwnershipGuard: what the log asks before it opens a partition.

See log/partition/ownership_guard.py.
"""

import asyncio
from collections.abc import Iterable

from opentalos.broker.cluster.cluster_ownership import ClusterOwnership
from opentalos.broker.cluster.membership import Membership
from opentalos.broker.cluster.state import ClusterState, assignment_path
from opentalos.catalog.topics.topics import TopicCatalog, confirm_topic
from opentalos.log.manifest.manifest import Manifest
from opentalos.model.errors import PartitionNotServing, TalosError
from opentalos.model.limits import ClusterLimits
from opentalos.model.message import PartitionKey

SEALED_POLL_S = 0.01  # between two checks whether the former owner has sealed
# A recovery fences the journal of all partitions of a former owner that lives, and they all open
# again. So a seal that waits for its turn is given so many times the time.
JOURNAL_PATIENCE = 4


def handover_max_s(handover_s: float, *, journaled: bool) -> float:
    """How long a partition may take to be sealed for its new owner."""
    return handover_s * (JOURNAL_PATIENCE if journaled else 1)


class ClusterOwnershipGuard:
    """Open for partitions of this server while its session is valid."""

    def __init__(
        self,
        state: ClusterState,
        ownership: ClusterOwnership,
        membership: Membership,
        limits: ClusterLimits,
    ) -> None:
        self._state, self._ownership, self._membership = state, ownership, membership
        self.handover_s = limits.handover_s
        self.topics: TopicCatalog | None = None  # until ``attach``
        self._waits: dict[PartitionKey, tuple[int, float]] = {}  # assignment's number, until when

    def attach(self, topics: TopicCatalog) -> None:
        """The catalog is loaded: new partitions are opened only for topics that it knows."""
        self.topics = topics

    def refusal(self, key: PartitionKey) -> TalosError | None:
        """See OwnershipGuard."""
        refusal = self._ownership.refusal(key.topic_uuid, key.partition)
        if refusal is None and not self._membership.steady:
            refusal = PartitionNotServing("coordination is unavailable: no partition is opened")
        return refusal

    def wait_s(self, key: PartitionKey, former: Manifest) -> float:
        """See OwnershipGuard: while a planned move's source is alive, at most ``handover_s``, or
        longer if it shares a journal.
        """
        record = self._state.assignment(key.topic_uuid)
        source = record.moved_from.get(str(key.partition)) if record is not None else None
        if record is None or source is None or source != former.owner:
            return 0.0
        if not self._ownership.address_of(source):
            return 0.0
        now_s = asyncio.get_running_loop().time()
        number, until_s = self._waits.get(key, (-1, 0.0))
        if number != record.number:
            until_s = now_s + handover_max_s(self.handover_s, journaled=bool(former.journal))
            self._waits[key] = (record.number, until_s)
        return SEALED_POLL_S if now_s < until_s else 0.0

    def forget(self, keys: Iterable[PartitionKey]) -> None:
        """These partitions were assigned or taken away: forget how long was waited."""
        for key in keys:
            self._waits.pop(key, None)

    def steady(self) -> bool:
        """See OwnershipGuard."""
        return self._membership.steady

    def certain(self) -> bool:
        """See OwnershipGuard: nobody takes over from a server whose session is valid."""
        return self._membership.valid

    @property
    def instance(self) -> str:
        """See OwnershipGuard."""
        return self._membership.me.incarnation

    def living(self) -> frozenset[str]:
        """See OwnershipGuard: those that are expected to register again live, too."""
        servers = [*self._state.live().values(), *self._state.expected().values()]
        return frozenset(server.incarnation for server in servers)

    async def confirm_owner(self, key: PartitionKey) -> None:
        """See OwnershipGuard: with an old copy of the assignments nothing may be taken back."""
        await self._state.assignments.refresh(assignment_path(key.topic_uuid))
        refusal = self.refusal(key)
        if refusal is not None:
            raise refusal

    async def confirm_topic(self, key: PartitionKey) -> None:
        """See OwnershipGuard."""
        if self.topics is not None:
            await confirm_topic(self.topics, key.topic_uuid)

"""Where the partitions of a topic are: by the assignment, and by the manifest, which decides."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from opentalos.broker.context import BrokerContext
from opentalos.log.manifest.store import ManifestStore
from opentalos.model.identity import Principal
from opentalos.model.message import PartitionKey
from opentalos.ports.meta_store import MetaStore

_READS_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlace:
    """One partition. ``epoch`` and ``owner`` are those of its last opening; 0 and "": never."""

    partition: int
    address: str  # of the server that it is assigned to
    epoch: int
    owner: str  # name of the server that opened it last


class PartitionPlaces:
    """For service administrators."""

    def __init__(self, context: BrokerContext, meta: MetaStore) -> None:
        self._context, self._manifests = context, ManifestStore(meta, "places")

    async def of_topic(self, caller: Principal, name: str) -> Sequence[PartitionPlace]:
        """Every partition of a topic. Raises: PermissionDenied, TopicNotExist, Unavailable."""
        self._context.authorizer.authorize_admin(caller, "list the servers of partitions", name)
        topic = self._context.topics.find(caller, name)
        count = topic.consumer_partitions
        addresses = self._context.ownership.addresses(topic.uuid, count)
        slots = asyncio.Semaphore(_READS_AT_ONCE)

        async def place(partition: int) -> PartitionPlace:
            async with slots:
                held = await self._manifests.load(PartitionKey(topic.uuid, partition))
            return PartitionPlace(
                partition=partition,
                address=addresses[partition],
                epoch=held.manifest.epoch,
                owner=held.manifest.owner,
            )

        return await asyncio.gather(*map(place, range(count)))

"""What manifests say of segments by their path, for the journals' upkeep and for late files.

A path has topic, partition and epoch in it, so it leads to its manifest.
"""

import asyncio

from opentalos.log.journal.slots import Standing
from opentalos.log.manifest.manifest import Manifest
from opentalos.log.manifest.store import NOTHING, ManifestStore
from opentalos.log.segment.format import partition_and_epoch
from opentalos.model.message import PartitionKey

LOADS_AT_ONCE = 64
LISTED_AT_ONCE = 1_024  # tasks


class Registered:
    """Reads manifests; it changes none."""

    def __init__(self, manifests: ManifestStore) -> None:
        self._manifests = manifests

    async def needed(self, path: str) -> bool:
        """Whether the segment is its partition's unsealed one, or may still become it.

        Raises: TalosError: not known.
        """
        key, epoch = partition_and_epoch(path)
        versioned = await self._manifests.load(key)
        manifest = versioned.manifest
        unsealed = manifest.unsealed
        if unsealed is not None and unsealed.path(key) == path:
            return True
        gone = versioned is NOTHING or manifest.epoch > epoch
        return not (gone or _names(manifest, key, path))

    async def standing(self, path: str) -> Standing:
        """Whose the segment is now. Raises: TalosError: not known."""
        key, epoch = partition_and_epoch(path)
        manifest = (await self._manifests.load(key)).manifest
        if (manifest.epoch, manifest.instance) == (epoch, self._manifests.instance):
            return Standing.OURS
        return Standing.TAKEN if _names(manifest, key, path) else Standing.GONE

    async def journals(self) -> dict[str, list[PartitionKey]]:
        """Those that any manifest names, and whose. Raises: TalosError: not known."""
        found: dict[str, list[PartitionKey]] = {}
        room = asyncio.Semaphore(LOADS_AT_ONCE)

        async def look(key: PartitionKey) -> None:
            async with room:
                manifest = await self._manifests.load(key)
            found.setdefault(manifest.manifest.journal, []).append(key)

        keys = await self._manifests.partitions()
        for first in range(0, len(keys), LISTED_AT_ONCE):
            await asyncio.gather(*map(look, keys[first : first + LISTED_AT_ONCE]))
        return found


def _names(manifest: Manifest, key: PartitionKey, path: str) -> bool:
    return any(segment.path(key) == path for segment in manifest.segments)

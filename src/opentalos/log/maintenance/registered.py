"""What manifests say of segments by their path, for the journals' upkeep and for late files.

A path has topic, partition and epoch in it, so it leads to its manifest.
"""

from opentalos.log.journal.slots import Standing
from opentalos.log.manifest.manifest import Manifest
from opentalos.log.manifest.store import NOTHING, ManifestStore
from opentalos.log.segment.format import parse_file_name
from opentalos.model.message import PartitionKey


class Registered:
    """Reads manifests; it changes none, but may make a change under way impossible."""

    def __init__(self, manifests: ManifestStore) -> None:
        self._manifests = manifests

    async def needed(self, path: str, *, decide: bool = False) -> bool:
        """Whether the segment is its partition's unsealed one, or may still become it.

        ``decide``: make sure that it does not become it. A segment is in its journal before its
        manifest names it, so without that the journal could be ended in between.
        Raises: TalosError: not known.
        """
        key, epoch = _parsed(path)
        versioned = await self._manifests.load(key)
        manifest = versioned.manifest
        unsealed = manifest.unsealed
        if unsealed is not None and unsealed.path(key) == path:
            return True
        if versioned is NOTHING or manifest.epoch > epoch or _names(manifest, key, path):
            return False
        return not decide or not await self._manifests.refuse_older(key, versioned)

    async def standing(self, path: str) -> Standing:
        """Whose the segment is now. Raises: TalosError: not known."""
        key, epoch = _parsed(path)
        manifest = (await self._manifests.load(key)).manifest
        if (manifest.epoch, manifest.instance) == (epoch, self._manifests.instance):
            return Standing.OURS
        return Standing.TAKEN if _names(manifest, key, path) else Standing.GONE

    async def journals(self) -> dict[str, list[PartitionKey]]:
        """Those that any manifest names, and whose. Raises: TalosError: not known."""
        found: dict[str, list[PartitionKey]] = {}
        for key in await self._manifests.partitions():
            journal = (await self._manifests.load(key)).manifest.journal
            found.setdefault(journal, []).append(key)
        return found


def _parsed(path: str) -> tuple[PartitionKey, int]:
    topic_uuid, partition, _ = path.split("/")
    parsed = parse_file_name(path)
    assert parsed is not None
    return PartitionKey(topic_uuid, int(partition)), parsed[1]


def _names(manifest: Manifest, key: PartitionKey, path: str) -> bool:
    return any(segment.path(key) == path for segment in manifest.segments)

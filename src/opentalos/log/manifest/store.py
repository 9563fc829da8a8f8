"""Reads and changes manifests in the MetaStore; every change is a compare-and-set (promise I2).

The opening, the writer and its jobs change manifests; readers and the cluster load them.
"""

from dataclasses import replace
from typing import NamedTuple

from opentalos.log.manifest.manifest import Manifest
from opentalos.model.errors import (
    AlreadyExists,
    CorruptLog,
    OutcomeUnknown,
    PartitionNotServing,
    StoreUnavailable,
    VersionConflict,
)
from opentalos.model.message import PartitionKey
from opentalos.ports.meta_store import MetaStore

ROOT = "log"
ABSENT = 0  # version of a manifest that does not exist


class VersionedManifest(NamedTuple):
    """A manifest with the record version that the next change expects."""

    manifest: Manifest
    version: int


NOTHING = VersionedManifest(Manifest(), ABSENT)


def manifest_path(key: PartitionKey) -> str:
    """Where a partition's manifest lies in the MetaStore."""
    return f"{ROOT}/{key.topic_uuid}/{key.partition}"


class ManifestStore:
    """Manifests by partition. ``instance`` marks what this process wrote."""

    def __init__(self, meta: MetaStore, instance: str) -> None:
        self.instance = instance
        self.meta = meta
        self._changes = 0

    async def partitions(self) -> list[PartitionKey]:
        """Every partition that has a manifest, in no order."""
        return [
            PartitionKey(topic_uuid, int(name))
            for topic_uuid in await self.meta.children(ROOT)
            for name in await self.meta.children(f"{ROOT}/{topic_uuid}")
            if name.isdecimal()
        ]

    async def load(self, key: PartitionKey) -> VersionedManifest:
        """The current manifest (linearizable); ``NOTHING`` for a partition never written."""
        record = await self.meta.get(manifest_path(key))
        if record is None:
            return NOTHING
        try:
            return VersionedManifest(Manifest.decode(record.value), record.version)
        except CorruptLog as error:
            raise CorruptLog(f"{manifest_path(key)}: {error}") from error

    async def version_of(self, key: PartitionKey) -> int:
        """The record's version, whether it can be read or not.

        Raises: CorruptLog: it is damaged in a way that its store cannot replace.
        """
        try:
            record = await self.meta.get(manifest_path(key))
        except CorruptLog as damage:
            if not damage.record_version:
                raise
            return damage.record_version
        return ABSENT if record is None else record.version

    async def change(
        self, key: PartitionKey, versioned: VersionedManifest, manifest: Manifest
    ) -> VersionedManifest:
        """Replace exactly the version that the caller knows.

        Raises: PartitionNotServing: another server changed it, not done. OutcomeUnknown: neither
        the answer nor a read showed the outcome; the caller must claim the next epoch.
        """
        path = manifest_path(key)
        self._changes += 1
        marked = replace(manifest, instance=self.instance, change=self._changes)
        value = marked.encode()
        try:
            if versioned.version == ABSENT:
                version = await self.meta.create(path, value)
            else:
                version = await self.meta.replace(path, value, versioned.version)
        except (VersionConflict, AlreadyExists) as error:
            raise PartitionNotServing(f"{path}: another owner changed the manifest") from error
        except OutcomeUnknown as unknown:
            try:
                record = await self.meta.get(path)
            except StoreUnavailable:  # of the read; it says nothing about the change
                raise unknown from None
            if record is None or record.value != value:
                raise
            version = record.version
        return VersionedManifest(marked, version)

    async def refuse_older(self, key: PartitionKey, versioned: VersionedManifest) -> bool:
        """Let no change succeed any more that expects this version; the content stays.

        So what a change under way would have named is never named. False: it was changed meanwhile.
        """
        try:
            await self.meta.replace(
                manifest_path(key), versioned.manifest.encode(), versioned.version
            )
        except VersionConflict:
            return False
        return True

    async def remove(self, key: PartitionKey, versioned: VersionedManifest) -> None:
        """Delete exactly this version; an absent record is no error."""
        if versioned.version == ABSENT:
            return
        try:
            await self.meta.delete(manifest_path(key), versioned.version)
        except VersionConflict as error:
            if await self.meta.get(manifest_path(key)) is not None:
                raise PartitionNotServing(f"{manifest_path(key)}: changed meanwhile") from error

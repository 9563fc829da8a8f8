"""Files of all logs of a storage, for backups."""

from typing import NamedTuple

from opentalos.log.manifest.store import ManifestStore
from opentalos.log.segment.format import index_path, segment_path
from opentalos.ports.meta_store import MetaStore


class LogFile(NamedTuple):
    """A file of the FileStore that a manifest names."""

    path: str
    sealed: bool  # never changes again
    needed: bool  # False: a side index that the next opening rebuilds


async def list_log_files(meta: MetaStore) -> list[LogFile]:
    """Files of all logs, in the order of their manifests.

    Raises: CorruptLog, NewerFormat: a manifest cannot be read.
    """
    manifests = ManifestStore(meta, "list")
    found = []
    for key in sorted(await manifests.partitions()):
        manifest = (await manifests.load(key)).manifest
        if manifest.deleted:
            continue  # its files are being deleted
        for segment in manifest.segments:
            path = segment.path(key)
            found.append(LogFile(path, segment.sealed, needed=True))
            if segment.sealed:
                found.append(LogFile(index_path(path), sealed=True, needed=False))
        if manifest.state_of is not None:  # state that no segment has any more
            path = segment_path(key.topic_uuid, key.partition, *manifest.state_of)
            found.append(LogFile(index_path(path), sealed=True, needed=True))
    return found

"""Files of all logs of a storage, for backups."""

from typing import NamedTuple

from opentalos.log.journal.format import ROOT as JOURNALS
from opentalos.log.journal.format import ended_path, file_path, number_of
from opentalos.log.maintenance.stored_journals import StoredJournals
from opentalos.log.manifest.store import ManifestStore
from opentalos.log.segment.format import index_path, segment_path
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore

__all__ = [
    "JOURNALS",
    "LogFile",
    "ended_path",
    "file_path",
    "list_log_files",
    "not_in_journals",
    "number_of",
]


class LogFile(NamedTuple):
    """A file of the FileStore that a manifest names."""

    path: str
    sealed: bool  # never changes again
    needed: bool  # False: an opening makes do without it
    journal: str = ""  # which has all of the file as long as that is not made


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
            late = manifest.late and not segment.sealed
            journal = manifest.journal if late else ""
            found.append(LogFile(path, segment.sealed, not late, journal))
            if segment.sealed:
                found.append(LogFile(index_path(path), sealed=True, needed=False))
        if manifest.state_of is not None:  # state that no segment has any more
            path = segment_path(key.topic_uuid, key.partition, *manifest.state_of)
            found.append(LogFile(index_path(path), sealed=True, needed=True))
    return found


async def not_in_journals(files: FileStore, missing: list[LogFile]) -> list[LogFile]:
    """Those of the files that no server uses of which the journals do not have all."""
    journals = StoredJournals(files)
    return [file for file in missing if not await journals.have_all(file.path, file.journal)]

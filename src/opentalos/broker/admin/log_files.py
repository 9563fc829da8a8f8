"""Files of all logs of a storage, for backups."""

from collections.abc import Mapping
from operator import attrgetter
from typing import NamedTuple

from opentalos.log.journal.format import ROOT as JOURNALS
from opentalos.log.journal.format import ended_path, file_path, number_of
from opentalos.log.maintenance.stored_journals import Begin, StoredJournals
from opentalos.log.manifest.store import ManifestStore
from opentalos.log.segment.format import (
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    index_path,
    partition_and_epoch,
    segment_path,
)
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore

__all__ = [
    "JOURNALS",
    "SEGMENT_HEADER_BYTES",
    "Begin",
    "LogFile",
    "begun_since",
    "ended_path",
    "file_path",
    "header_of_cut",
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


async def begun_since(files: FileStore, meta: MetaStore, before: Mapping[str, int]) -> list[Begin]:
    """Where copies of journals begin to have segments that the copied manifests are too old for.

    A first group is in its journal before a manifest names its segment, so whatever the manifests
    name and nothing else has begins before, but for what was under way at that moment.

    Args: files, meta: the copies. before: lengths of files when the manifests were not copied yet.
    Returns: the first such place of each journal.
    """
    manifests = ManifestStore(meta, "list")
    first: dict[str, Begin] = {}  # by folder
    for begin in await StoredJournals(files).begins():
        if begin.position < before.get(begin.file, 0):
            continue  # what was there before is left as it is
        path = begin.path
        key, epoch = partition_and_epoch(path)
        manifest = (await manifests.load(key)).manifest
        if epoch >= manifest.epoch and all(each.path(key) != path for each in manifest.segments):
            folder = begin.file.rpartition("/")[0]
            # Numbers of files have a fixed width.
            first[folder] = min(first.get(folder, begin), begin, key=attrgetter("file", "position"))
    return list(first.values())


def header_of_cut(raw: bytes, begin: Begin) -> bytes:
    """The header of a journal's file that ends there. It says which files are needed, as the whole
    journal does: what said so may have been cut off.
    """
    header = SegmentHeader.decode(raw)
    return header._replace(partition=max(header.partition, begin.needed)).encode()

"""What is stored of topics: folders of files and manifests, by uuid.

For whoever compares it with the catalogue, which knows whose it is. That takes one listing of the
whole store; a file is read only for the question whether it has messages.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from opentalos.log.journal.format import ROOT as JOURNALS
from opentalos.log.maintenance.stored_journals import StoredJournals
from opentalos.log.manifest.store import NOTHING, ROOT, ManifestStore
from opentalos.log.segment.damage import left_by_crash
from opentalos.log.segment.format import (
    NUMBER_PREFIX,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    parse_file_name,
)
from opentalos.log.segment.index import SparseIndex
from opentalos.log.segment.scan import (
    SCAN_WINDOW_BYTES,
    Readable,
    SegmentScan,
    valid_blocks,
)
from opentalos.model.errors import CorruptLog, NewerFormat, NotFound
from opentalos.model.message import PartitionKey
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore

PATHS_PER_TURN: Final = 4_096  # sorted out before other work has its turn

Partitions = Mapping[int, Sequence[str]]  # number to the paths of its files


class Journals(NamedTuple):
    """What journals have that no server writes any more. Both raise TalosError: not known."""

    held: Callable[[], Awaitable[Collection[str]]]  # segments
    whole: Callable[[str], Awaitable[Readable]]  # a segment with what its journal has of it


class StoredTopics:
    """Of one server, or of all that share the stores."""

    def __init__(self, files: FileStore, meta: MetaStore, journals: Journals) -> None:
        self._files, self._meta, self._journals = files, meta, journals
        self._manifests = ManifestStore(meta, "list")
        self._held: Collection[str] = ()  # as of the last listing

    async def with_files(self) -> dict[str, dict[int, list[str]]]:
        """The segments and other files of each partition, by topic. Raises: Unavailable."""
        found: dict[str, dict[int, list[str]]] = {}
        paths = await self._files.list("")
        self._held = await self._journals.held()
        late = sorted(set(self._held).difference(paths)) if self._held else []
        for number, path in enumerate((*paths, *late)):
            if number % PATHS_PER_TURN == 0:
                await asyncio.sleep(0)
            parts = path.split("/")
            if len(parts) == 3 and parts[1].isdecimal() and parts[0] != JOURNALS:
                found.setdefault(parts[0], {}).setdefault(int(parts[1]), []).append(path)
        return found

    async def with_manifests(self) -> Sequence[str]:
        """The topics that have any. Raises: Unavailable."""
        return await self._meta.children(ROOT)

    async def partitions(self, topic_uuid: str, files: Partitions) -> Partitions:
        """Those with files, and those with a manifest alone. Raises: Unavailable."""
        found: dict[int, Sequence[str]] = dict(files)
        for name in await self._meta.children(f"{ROOT}/{topic_uuid}"):
            if name.isdecimal():
                found.setdefault(int(name), ())
        return dict(sorted(found.items()))

    async def has_messages(self, key: PartitionKey, paths: Sequence[str]) -> bool:
        """Whether a manifest names segments, or a file has a message; also if that is not known.

        What a deletion left that did not end has none. Raises: Unavailable.
        """
        try:
            versioned = await self._manifests.load(key)
        except (CorruptLog, NewerFormat):
            return True
        if versioned.manifest.deleted:
            return False
        if versioned.manifest.segments:
            return True
        for path in paths:
            if is_segment(path) and await self._holds_message(path):
                return True
        return False

    async def without_manifest(self, key: PartitionKey, paths: Sequence[str]) -> bool:
        """Whether a partition has messages and nothing that names them. Raises: Unavailable."""
        try:
            named = await self._manifests.load(key) is not NOTHING
        except (CorruptLog, NewerFormat):
            named = False
        return not named and await self.has_messages(key, paths)

    async def remove_files(self, topic_uuid: str) -> Sequence[str]:
        """Fence and delete every file of a topic that was deleted; which there were.

        Raises: Unavailable, RecoveryStuck, OutcomeUnknown: some may be left; call again.
        """
        paths = await self._files.list(topic_uuid)
        for path in paths:
            await self._files.delete(path)
        return paths

    async def _holds_message(self, path: str) -> bool:
        """A crash of a late writer leaves a header, the log's own state, a part of a block."""
        try:
            files = await self._journals.whole(path) if path in self._held else self._files
            head = await files.read(path, position=0, bytes_max=SEGMENT_HEADER_BYTES + 1)
            if len(head) <= SEGMENT_HEADER_BYTES:
                return False
            header = SegmentHeader.decode(head[:SEGMENT_HEADER_BYTES])
            scan = SegmentScan(header.seed, header.base_offset, SparseIndex(SCAN_WINDOW_BYTES))
            want, last = SCAN_WINDOW_BYTES, False
            while not scan.fault and not last:
                begin = scan.position
                raw = await files.read(path, position=begin, bytes_max=want)
                last = len(raw) < want
                want = scan.feed(raw, last=last)
                if scan.next_offset > header.base_offset:
                    return True
        except NotFound:  # deleted meanwhile
            return False
        except (CorruptLog, NewerFormat):
            return True
        if not scan.fault:
            return False
        rest, position = raw[scan.position - begin :], scan.position
        if not last or not left_by_crash(rest, position, len(rest), header.seed, at_end=True):
            return True
        behind = valid_blocks(files, path, header.seed, position + 1, position + len(rest))
        block = await anext(behind, None)
        await behind.aclose()
        return block is not None


def on_stopped_storage(files: FileStore, meta: MetaStore) -> StoredTopics:
    """What is stored while no server runs."""
    journals = StoredJournals(files)

    async def held() -> Collection[str]:
        return await journals.held()

    async def whole(path: str) -> Readable:
        return (await journals.lay_over(path, await journals.holder(path)))[0]

    return StoredTopics(files, meta, Journals(held, whole))


def is_segment(path: str) -> bool:
    """Whether the file is one that messages lie in."""
    parsed = parse_file_name(path)
    return parsed is not None and parsed[2] == "log"


def first_offset(path: str) -> int | None:
    """Where the segment begins, by its name; None: the name does not say."""
    parsed = parse_file_name(path)
    numbered = path.rpartition("/")[2].startswith(NUMBER_PREFIX)
    return None if parsed is None or numbered else parsed[0]

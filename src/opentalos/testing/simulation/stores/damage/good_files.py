"""Segments that a manifest named before a fault: their messages must stay, whoever needs them.

A message is in its place as long as any file of its partition has it, one that is set aside and a
journal included. Nothing else explains that it is gone where no retention, merge or deletion runs.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from opentalos.testing.simulation.stores.disk import ASIDE, SEGMENT_SUFFIX, SimulatedDisk
from opentalos.testing.simulation.stores.stored_journals import (
    JOURNAL_SUFFIX,
    SEED,
    laid_over,
    whole_end,
)
from opentalos.testing.simulation.stores.stored_logs import (
    BLOCK_HEADER,
    SEGMENT_HEADER_BYTES,
    Partition,
    file_of,
)

_MESSAGES, _BASE, _COMMITTED, _EXTRAS_BYTES = 3, 4, 5, 15  # fields of a block's header
_BASE_OFFSET = slice(24, 32)  # in the header of a segment
GROUPS, _OF_PARTITION = "groups", b"p"  # see group/row_format.py


class Message(NamedTuple):
    """The messages of a block, which keep offset and bytes wherever they are copied to."""

    offset: int
    crc: int


class GoodFiles:
    """``keep`` what a manifest names; ``missing`` says at the end what is gone."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self._good: dict[str, frozenset[Message]] = {}
        self._epochs: dict[Partition, int] = {}

    def keep(self, partition: Partition, manifest: bytes) -> None:
        """All that the segments of this manifest have must stay; empty: there is no manifest.

        A journal may end once its segments are sealed, so only what the last one has in it counts.
        """
        files, whole = self._contents(partition, journals=False), self._contents(partition)
        rows = json.loads(manifest)["segments"] if manifest else ()
        for base, epoch, following, _, _, *numbers in rows:
            path = file_of(partition, base, epoch, *numbers[:1])
            content = (whole if following is None else files).get(path, b"")
            kept = frozenset(messages_of(content))
            self._good[path] = self._good.get(path, frozenset()) | kept

    def went_back(self, partition: Partition, epoch: int) -> None:
        """The manifest is older now: files of a later epoch prove that."""
        self._epochs[partition] = epoch

    def forget_lost(self, cut: str, before: bytes) -> None:
        """A fault of the disk took bytes of a file: what is left of its messages must stay."""
        if cut.endswith(JOURNAL_SUFFIX):
            for path, kept in self._good.items():
                self._good[path] = kept & self._present(_partition(path))
        elif cut.endswith(SEGMENT_SUFFIX):
            partition = _partition(cut)
            lost = frozenset(messages_of(before)) - self._present(partition, journals=False)
            left = self._present(partition)  # nothing continues a file that is shorter
            for path, kept in self._good.items():
                if _partition(path) == partition:
                    self._good[path] = (kept - lost) & left

    def missing(self) -> Iterator[str]:
        """Texts about segments whose messages no file has any more."""
        for path, kept in self._good.items():
            gone = sorted(kept - self._present(_partition(path)))
            if gone:
                offsets = ", ".join(str(message.offset) for message in gone)
                yield f"{path}: nothing has its messages at {offsets}"

    def is_proven(self, path: str, *, flushed: bool) -> bool:
        """Whether anything proves that a manifest has named a file that is left out.

        A block that was written when more than the file's beginning was committed, an epoch that
        the older manifest does not know, or a consumer group that has read it, since only a flushed
        log may lose that.
        """
        folder, _, name = path.rpartition("/")
        contents = [
            content
            for each, content in self._contents(_partition(path)).items()
            if each == path or (each.startswith(ASIDE + folder) and each.endswith(f"-{name}"))
        ]
        partition = _partition(path)
        epoch = int(name.removesuffix(SEGMENT_SUFFIX).rpartition("-")[2])
        if epoch > self._epochs.get(partition, epoch):
            return True
        read = 0 if flushed else read_by_groups(self._disk, partition)
        for content in contents:
            base_offset = int.from_bytes(content[_BASE_OFFSET], "big")
            if read > base_offset or any(
                header[_COMMITTED] > base_offset for header, _ in _blocks(content)
            ):
                return True
        return False

    def _present(self, partition: Partition, *, journals: bool = True) -> frozenset[Message]:
        """All messages of the partition, wherever they are."""
        contents = self._contents(partition, journals=journals)
        return frozenset(each for content in contents.values() for each in messages_of(content))

    def _contents(self, partition: Partition, *, journals: bool = True) -> dict[str, bytes]:
        """Segments by path, with what journals have of them, and files that are set aside."""
        files = self._disk.files
        folder = f"{partition[0]}/{partition[1]}/"
        segments = {
            path: bytes(file.content)
            for path, file in files.items()
            if path.startswith((folder, ASIDE + folder))
        }
        held = [
            bytes(file.content)
            for path, file in files.items()
            if journals and path.endswith(JOURNAL_SUFFIX)
        ]
        found = laid_over(segments, held)
        return {path: found[path] for path in found if path.startswith((folder, ASIDE + folder))}


def read_by_groups(disk: SimulatedDisk, partition: Partition) -> int:
    """The first offset that no consumer group has read, by the stored rows."""
    topic_uuid, number = partition
    found = 0
    for key, row in disk.records.tables.get(GROUPS, {}).items():
        uuid, _, kind = key.split(b"\0", 2)
        if uuid.decode() == topic_uuid and kind == _OF_PARTITION + number.to_bytes(4, "big"):
            found = max(found, int(row.data.get(b"checkpoint", b"-1")) + 1)
    return found


def messages_of(content: bytes) -> Iterator[Message]:
    """Of the whole blocks of a segment, up to the first that is not."""
    for header, payload in _blocks(content):
        if header[_MESSAGES]:
            yield Message(header[_BASE], crc32(payload))


def _blocks(content: bytes) -> Iterator[tuple[tuple[int, ...], bytes]]:
    """Headers and payloads."""
    at, seed = SEGMENT_HEADER_BYTES, int.from_bytes(content[SEED], "big")
    while end := whole_end(content, at, seed):
        header = BLOCK_HEADER.unpack_from(content, at)
        yield header, content[at + BLOCK_HEADER.size + header[_EXTRAS_BYTES] : end]
        at = end


def _partition(path: str) -> Partition:
    topic_uuid, partition, _ = path.split("/")
    return topic_uuid, int(partition)

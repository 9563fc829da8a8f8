"""All blocks that were ever committed to simulated storage, still retained or not.

It reads manifests as they are written, and segment files before they are removed. It uses the
documented layout and not the log's own code, so that it is independent evidence against that code.
"""

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from opentalos.adapters.memory import MemoryStorage
from opentalos.adapters.memory.storage import StoredRecord

Partition = tuple[str, int]  # topic uuid, partition
MANIFESTS = "log/"
SEGMENT_MAGIC = b"\x89TALOSEG"
SEGMENT_HEADER_BYTES = 64
BLOCK_HEADER = struct.Struct(">IIIIQQQqqQIqBBHHH")  # see log/segment/format.py
_APPEND_MS, _FORMAT, _EXTRAS_BYTES = 7, 12, 15  # indexes of its fields
_ENCRYPTED, _HIDDEN_EXTRAS_AT, _ENCRYPTION_BYTES = (
    0x80,
    9,
    39,
)  # see log/segment/encrypted_format.py


class CommittedBlock(NamedTuple):
    """One block with messages."""

    base_offset: int
    messages: int
    append_ms: int
    payload_bytes: int  # as the producer sent it


class _Sealed(NamedTuple):
    """A sealed segment as a manifest recorded it."""

    base_offset: int
    epoch: int
    next_offset: int
    file_bytes: int
    number: int  # in the file's name, instead of the base offset; 0: none


class WatchedRecords(MemoryStorage):
    """Records that remember every sealed segment that a manifest has listed."""

    def __init__(self) -> None:
        super().__init__()
        self.sealed: dict[Partition, dict[_Sealed, None]] = {}
        self.unsealed: dict[Partition, tuple[int, ...]] = {}  # base offset, epoch, number
        self.journals: dict[str, dict[Partition, None]] = {}  # by name: whose segments need it
        self._epochs: dict[Partition, int] = {}
        self.claimed: Callable[[Partition], None] = lambda partition: None
        self._starts: dict[Partition, int] = {}
        self.moved: Callable[[Partition, int], None] = lambda partition, start: None
        self.watched: Callable[[str], None] = lambda path: None

    def put_back(self, path: str, stored: StoredRecord | None) -> None:
        """The store came back older: the record is what it was before; None: it was not there."""
        if stored is None:
            self.records.pop(path, None)
        else:
            self.records[path] = stored
        key = partition_of(path)
        if key is not None:
            self._epochs.pop(key, None)
        super().record_changed(path)

    def record_changed(self, path: str) -> None:
        """See MemoryStorage; called with each change that was applied."""
        super().record_changed(path)
        self.watched(path)
        stored = self.records.get(path)
        key = partition_of(path)
        if stored is None or key is None:
            return
        manifest: dict[str, Any] = json.loads(stored.record.value)
        known = self.sealed.setdefault(key, {})
        if manifest["epoch"] < self._epochs.get(key, 0):
            return  # a server that does not know of a deletion created the record again
        if manifest["epoch"] > self._epochs.get(key, 0):
            self.claimed(key)
        self._epochs[key] = manifest["epoch"]
        if manifest["start"] > self._starts.get(key, 0):
            self._starts[key] = manifest["start"]
            self.moved(key, manifest["start"])
        if manifest.get("journal"):
            self.journals.setdefault(manifest["journal"], {})[key] = None
        self.unsealed.pop(key, None)
        for base, epoch, next_offset, file_bytes, _, *numbers in manifest["segments"]:
            number = numbers[0] if numbers else 0
            if next_offset is None:
                self.unsealed[key] = (base, epoch, number)
            elif not _merged(known, base, next_offset, number):
                known[_Sealed(base, epoch, next_offset, file_bytes, number)] = None


def partition_of(path: str) -> Partition | None:
    """Whose manifest a record is; None: it is none."""
    if not path.startswith(MANIFESTS):
        return None
    _, topic_uuid, partition = path.split("/")
    return topic_uuid, int(partition)


def _merged(known: dict[_Sealed, None], base: int, next_offset: int, number: int) -> bool:
    """Whether the segment repeats blocks of others, which it replaces."""
    return number > 0 and any(
        base <= former.base_offset < former.next_offset <= next_offset and former.number != number
        for former in known
    )


class StoredLog(NamedTuple):
    """All blocks of a partition, in order.

    ``sure``: all of them were committed; otherwise the last segment was never sealed, and its last
    group may not have been committed.
    """

    partition: Partition
    blocks: list[CommittedBlock]
    sure: bool


def stored_logs(records: WatchedRecords, files: dict[str, bytes]) -> Iterator[StoredLog]:
    """The blocks of every partition; ``files``: every segment file that ever existed."""
    for key, segments in records.sealed.items():
        blocks: list[CommittedBlock] = []
        for segment in sorted(segments):
            content = files.get(
                file_of(key, segment.base_offset, segment.epoch, segment.number), b""
            )
            blocks += _blocks(content[: segment.file_bytes])
        last = records.unsealed.get(key)
        if last is not None:
            blocks += _blocks(files.get(file_of(key, *last), b""))
        yield StoredLog(key, blocks, last is None)


def file_of(key: Partition, base_offset: int, epoch: int, number: int = 0) -> str:
    """The file of a segment that a manifest names."""
    name = f"n{number}" if number else f"{base_offset:020d}"
    return f"{key[0]}/{key[1]}/{name}-{epoch}.log"


def _blocks(content: bytes) -> Iterator[CommittedBlock]:
    """Blocks with messages, up to the first damage by a power loss."""
    at = SEGMENT_HEADER_BYTES
    while at + BLOCK_HEADER.size <= len(content):
        header = BLOCK_HEADER.unpack_from(content, at)
        size, messages, base = header[1], header[3], header[4]
        if size < BLOCK_HEADER.size or at + size > len(content):
            return
        if messages:
            payload_bytes = size - BLOCK_HEADER.size - header[_EXTRAS_BYTES]
            if header[_FORMAT] & _ENCRYPTED:
                extras_at = at + size - payload_bytes + _HIDDEN_EXTRAS_AT
                extras_bytes = int.from_bytes(content[extras_at : extras_at + 2], "big")
                payload_bytes -= _ENCRYPTION_BYTES + extras_bytes
            yield CommittedBlock(base, messages, header[_APPEND_MS], payload_bytes)
        at += size

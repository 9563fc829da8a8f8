"""Rows of the table ``groups``: one per consumer group and topic, one per partition of it.

Shape: key of a group: ``{topic uuid} 00 {group} 00 'g'``; of a partition: the same with
``'p' {partition u32be}``. A group of the topic's owner is written as its name, one of another
tenant as ``{tenant}/{name}``. Older servers wrote every group as its name, whichever tenant used
it first; the row names the tenant. Neither a uuid nor a group contains a zero byte, so a topic,
and a group in it, is one range of keys, and a group's own row comes before its partitions.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from opentalos.model.errors import CorruptLog, NewerFormat

TABLE = "groups"
SEPARATOR = "/"  # in no tenant and no name
NO_CHECKPOINT = -1
GROUP_ROW_END = b"\0g"  # of the key of a group's own row; few others end so
_VERSION = b"1"
_PARTITION = struct.Struct(">I")


class GroupKey(NamedTuple):
    """Names a consumer group uniquely: a recreated topic has another uuid."""

    topic_uuid: str
    group: str  # as in the rows: its name, or tenant and name

    @property
    def name(self) -> str:
        """The name that its tenant gave it."""
        return self.group.rpartition(SEPARATOR)[2]

    def of_tenant(self, tenant: str) -> "GroupKey":
        """The key of a tenant's group of this name that cannot have the name alone."""
        return GroupKey(self.topic_uuid, tenant + SEPARATOR + self.name)


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group on a topic and the tenant it belongs to.

    ``coordinator`` is the server that used it last; one that takes the group over writes itself
    here first, so that no other can delete it. ``deleting``: the group does not exist any more,
    only rows of it may be left. ``used_ms``: about when clients of Kafka used it last; None: it is
    no group of theirs, or a worker has used it, too. Servers of earlier versions keep the cell.
    """

    tenant: str
    created_ms: int
    coordinator: str = ""
    deleting: bool = False
    used_ms: int | None = None

    def cells(self) -> Mapping[bytes, bytes]:
        """The row's data family."""
        return {
            b"v": _VERSION,
            b"tenant": self.tenant.encode(),
            b"created_ms": str(self.created_ms).encode(),
            b"coordinator": self.coordinator.encode(),
            b"deleting": b"1" if self.deleting else b"",
            b"used_ms": b"" if self.used_ms is None else str(self.used_ms).encode(),
        }

    @classmethod
    def decode(cls, cells: Mapping[bytes, bytes]) -> "GroupRow":
        """Read a row. Raises: NewerFormat, CorruptLog."""
        _check_version(cells)
        try:
            used = cells.get(b"used_ms")
            return cls(
                cells[b"tenant"].decode(),
                int(cells[b"created_ms"]),
                cells.get(b"coordinator", b"").decode(),
                bool(cells.get(b"deleting")),
                int(used) if used else None,
            )
        except (KeyError, ValueError) as error:
            raise CorruptLog(f"unreadable consumer group row: {error!r}") from error


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A group on a partition: who was granted it, and how far the group is.

    ``generation`` counts grants and resets. ``epoch`` is the log's epoch in which the checkpoint
    was committed. ``address`` is where the owner's connection came from. ``at_start``: without a
    checkpoint, the group begins at offset 0; else it has no position. ``metadata`` is the text that
    a Kafka client stored with the checkpoint, as the broker encoded it: the groups never read it.
    ``server_assigns``: the last member was in a group of Kafka clients whose assignments the server
    decides.
    """

    owner: str = ""
    generation: int = 0
    checkpoint: int = NO_CHECKPOINT
    epoch: int = 0
    address: str = ""
    at_start: bool = False
    metadata: bytes = b""
    server_assigns: bool = False

    @property
    def next_offset(self) -> int:
        """Where the group continues, as Kafka counts; -1: it has no position."""
        return self.checkpoint + 1 if self.checkpoint >= 0 or self.at_start else -1

    def moved(self, checkpoint: int, epoch: int, metadata: bytes = b"") -> "PartitionRow":
        """The row with another checkpoint; -1: the group begins at offset 0."""
        return replace(
            self, checkpoint=checkpoint, epoch=epoch, at_start=checkpoint < 0, metadata=metadata
        )

    def cells(self) -> Mapping[bytes, bytes]:
        """The row's data family."""
        return {
            b"v": _VERSION,
            b"owner": self.owner.encode(),
            b"generation": str(self.generation).encode(),
            b"checkpoint": str(self.checkpoint).encode(),
            b"epoch": str(self.epoch).encode(),
            b"address": self.address.encode(),
            b"at_start": b"1" if self.at_start else b"",
            b"metadata": self.metadata,
            b"server_assigns": b"1" if self.server_assigns else b"",
        }

    @classmethod
    def decode(cls, cells: Mapping[bytes, bytes]) -> "PartitionRow":
        """Read a row. Raises: NewerFormat, CorruptLog."""
        _check_version(cells)
        try:
            return cls(
                cells[b"owner"].decode(),
                int(cells[b"generation"]),
                int(cells[b"checkpoint"]),
                int(cells[b"epoch"]),
                cells.get(b"address", b"").decode(),
                bool(cells.get(b"at_start")),
                cells.get(b"metadata", b""),
                bool(cells.get(b"server_assigns")),
            )
        except (KeyError, ValueError) as error:
            raise CorruptLog(f"unreadable checkpoint row: {error!r}") from error


def checkpoint_of(cells: Mapping[bytes, bytes]) -> int:
    """The checkpoint alone, where a thousand rows are read for a sum. Raises: as decode."""
    _check_version(cells)
    try:
        return int(cells[b"checkpoint"])
    except (KeyError, ValueError) as error:
        raise CorruptLog(f"unreadable checkpoint row: {error!r}") from error


def topic_range(topic_uuid: str) -> tuple[bytes, bytes]:
    """First key and stop key of a topic's rows."""
    return topic_uuid.encode() + b"\0", topic_uuid.encode() + b"\1"


def group_range(key: GroupKey) -> tuple[bytes, bytes]:
    """First key and stop key of a group's rows on a topic."""
    start = key.topic_uuid.encode() + b"\0" + key.group.encode()
    return start + b"\0", start + b"\1"


def group_row_key(key: GroupKey) -> bytes:
    """Key of a group's own row."""
    return key.topic_uuid.encode() + b"\0" + key.group.encode() + b"\0g"


def partition_row_key(key: GroupKey, partition: int) -> bytes:
    """Key of a group's row of one partition."""
    start = key.topic_uuid.encode() + b"\0" + key.group.encode()
    return start + b"\0p" + _PARTITION.pack(partition)


def parse_row_key(row_key: bytes) -> tuple[GroupKey, int | None]:
    """The group, and the partition; None for the group's own row. Raises: CorruptLog."""
    parts = row_key.split(b"\0", 2)
    try:
        uuid, group, rest = parts
        key = GroupKey(uuid.decode(), group.decode())
        if rest == b"g":
            return key, None
        if rest[:1] == b"p" and len(rest) == 1 + _PARTITION.size:
            return key, _PARTITION.unpack(rest[1:])[0]
    except ValueError as error:
        raise CorruptLog(f"unreadable key in table {TABLE}: {row_key.hex()}") from error
    raise CorruptLog(f"unreadable key in table {TABLE}: {row_key.hex()}")


def _check_version(cells: Mapping[bytes, bytes]) -> None:
    version = cells.get(b"v", b"")
    if version != _VERSION:
        raise NewerFormat(f"row of format {version!r} in table {TABLE}, this version reads 1")

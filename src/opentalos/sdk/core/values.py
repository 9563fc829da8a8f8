"""Values of the SDK's interface: messages, records, positions, topics, quotas and groups."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, IntEnum
from typing import NamedTuple

from opentalos.model.errors import TalosError
from opentalos.model.identity import Grantee, GrantType, Permission
from opentalos.model.message import (
    Compression,
    MessageBlock,
    OffsetRange,
    ProducerStamp,
    StoredBlock,
)
from opentalos.model.settings.partitioning import Partitioning
from opentalos.wire.message.message import Message, Record

__all__ = [
    "Compression",
    "DamagedRange",
    "FetchReply",
    "GrantType",
    "Grantee",
    "Message",
    "MessageBlock",
    "OffsetRange",
    "PartitionLag",
    "PartitionQuota",
    "PartitionState",
    "Partitioning",
    "Permission",
    "Position",
    "ProducerStamp",
    "PutReply",
    "Quota",
    "Record",
    "Start",
    "StoredBlock",
    "TopicDescription",
    "TopicInfo",
    "TopicRef",
    "TopicStatus",
    "UserQuota",
    "position_ms",
]


@dataclass(frozen=True, slots=True)
class TopicRef:
    """A resolved topic; a topic that is deleted and recreated has another resource name."""

    name: str  # without its owner
    resource: str  # owner#name#uuid
    partitions: int  # for producers
    consumer_partitions: int = 0  # for consumers; larger while a shrink drains
    partitioning: Partitioning = Partitioning.OFFICIAL  # of messages with a key

    def __post_init__(self) -> None:
        if self.consumer_partitions < self.partitions:
            object.__setattr__(self, "consumer_partitions", self.partitions)


class Start(Enum):
    """Where to start reading, if not at an offset or a time."""

    EARLIEST = "earliest"  # the first retained message
    LATEST = "latest"  # the end of the log: messages stored from now on


Position = int | Start | datetime  # an offset, an end of the log, or a time with a time zone


def position_ms(time: datetime) -> int:
    """Unix milliseconds of a time. Raises: ValueError: it has no time zone."""
    if time.tzinfo is None:
        raise ValueError("a time needs a time zone; use for example datetime.now(UTC)")
    return int(time.timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Retained offsets of a damaged partition: nobody knows where it ends.

    ``damage`` is the error of every read there. ``first``: None if nobody knows the start either.
    """

    damage: TalosError
    first: int | None

    @property
    def start(self) -> int:
        """The first retained offset. Raises: the damage, if that is not known."""
        if self.first is None:
            raise self.damage
        return self.first

    @property
    def next(self) -> int:
        """Raises: the damage."""
        raise self.damage


class PutReply(NamedTuple):
    """The result of a stored put."""

    base_offset: int | None  # of its first message; None: not reported by this server
    stored_before: bool = (
        False  # an earlier put with the same stamp stored it; older servers: False
    )


class Stored(NamedTuple):
    """Where a message is stored."""

    partition: int
    offset: int | None  # None: not reported by this server


class FetchReply(NamedTuple):
    """Blocks as stored, and how many messages follow."""

    blocks: list[StoredBlock]  # the first one contains the requested offset
    unhandled: int | None  # messages after the last returned one; None: the log is damaged


class TopicStatus(IntEnum):
    """State of a topic. Source: idl/topic.thrift TopicStatus."""

    CREATING = 0
    ACTIVE = 1
    DELETING = 2
    DELETED = 3


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """Names and owner of a topic."""

    name: str
    resource: str
    owner: str
    owner_name: str = ""  # of the responsible person


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Offsets and sizes of a partition at the time of the call."""

    partition: int
    start_offset: int  # first retained
    end_offset: int  # last message; start_offset - 1 when empty
    messages: int  # retained
    bytes_count: int  # retained
    total_messages: int  # ever
    total_bytes: int  # ever


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Limits of a topic or user; None: no limit. Used and remaining space are read-only."""

    space_bytes: int | None = None
    put_requests_per_s: int | None = None
    get_requests_per_s: int | None = None
    put_bytes_per_s: int | None = None
    get_bytes_per_s: int | None = None
    used_bytes: int | None = None
    remaining_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserQuota:
    """Limits of a user, over all its topics, and the number of topics."""

    quota: Quota
    topics: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionQuota:
    """The partition quota that an organisation has or requests."""

    organisation: str
    total: int  # partitions
    used: int | None = None  # partitions
    reason: str = ""
    organisation_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """The description of a topic."""

    info: TopicInfo
    partitions: int
    retention_s: int
    status: TopicStatus
    created_ms: int
    states: tuple[PartitionState, ...]  # without partitions that are unavailable
    quota: Quota
    old_partitions: int | None = None  # the count before the last change
    attributes: Mapping[str, str] = field(default_factory=dict)
    permissions: Mapping[str, Permission] = field(default_factory=dict)  # by grantee

    @property
    def messages(self) -> int:
        """Retained messages of all partitions."""
        return sum(state.messages for state in self.states)

    @property
    def bytes_count(self) -> int:
        """Retained bytes of all partitions."""
        return sum(state.bytes_count for state in self.states)


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """Committed offset and lag of a consumer group in one partition."""

    partition: int
    checkpoint: int  # committed offset: the last processed one; -1: none
    lag: int | None  # messages after the committed offset; None: the partition is damaged
    address: str  # of the worker that owns the partition; empty if none

"""Values that the use cases take and return; gateways translate them and import them from here."""

from collections.abc import Mapping
from dataclasses import dataclass

from opentalos.catalog.access.roles import ROLE_NAMES, role_name, with_limits
from opentalos.catalog.leases.lease import (
    EPOCH_SEEN_MAX,
    HOLDER_CHARS_MAX,
    TTL_MS_MAX,
    TTL_MS_MIN,
    Lease,
    LeaseRequest,
)
from opentalos.catalog.leases.leases import ObservedLease
from opentalos.catalog.principals.principals import IssuedKey, KeyInfo, LiveKey, PrincipalInfo
from opentalos.catalog.quota.decision import Decision, Outcome
from opentalos.catalog.quota.projection import Projection, projection_fields, projection_of
from opentalos.catalog.quota.quotas import PartitionQuota, UserQuota
from opentalos.catalog.topics.change import AttributeChange, NewTopic
from opentalos.catalog.topics.groups import TopicGroup, TopicGroupType
from opentalos.catalog.topics.topic import BaseQuota, Topic, TopicStatus

__all__ = [
    "EPOCH_SEEN_MAX",
    "HOLDER_CHARS_MAX",
    "ROLE_NAMES",
    "TTL_MS_MAX",
    "TTL_MS_MIN",
    "AttributeChange",
    "BaseQuota",
    "CheckpointKey",
    "Commit",
    "ConsumeUnit",
    "Decision",
    "IssuedKey",
    "KeyInfo",
    "Lease",
    "LeaseRequest",
    "LiveKey",
    "LockedPartitions",
    "NewTopic",
    "ObservedLease",
    "Outcome",
    "PartitionConsumeUnit",
    "PartitionQuota",
    "PartitionQuotas",
    "PartitionState",
    "PendingQuotas",
    "PrincipalInfo",
    "Projection",
    "QuotaUse",
    "Topic",
    "TopicDescription",
    "TopicGroup",
    "TopicGroupType",
    "TopicStatus",
    "UserQuota",
    "UserQuotaUse",
    "projection_fields",
    "projection_of",
    "role_name",
    "with_limits",
]


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Offsets and amounts of one partition. Source: idl/topic.thrift PartitionState."""

    partition: int
    start_offset: int
    end_offset: int  # last existing message; start - 1 when empty
    messages: int  # retained
    bytes_count: int  # retained
    total_messages: int  # ever appended
    total_bytes: int


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """A quota with every default filled in, and how much of its space is used."""

    quota: BaseQuota
    used_bytes: int

    @property
    def remaining_bytes(self) -> int:
        """Space left; 0 when over, and when there is no limit: the largest i64."""
        limit = self.quota.space_bytes or 0
        return max(0, limit - self.used_bytes) if limit else (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class UserQuotaUse:
    """A user's quota in force, with its use."""

    use: QuotaUse
    topics: int  # limit of the topic count


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """All parts of describeTopic; ``permissions`` maps grantee identifiers to masks."""

    topic: Topic
    partitions: tuple[PartitionState, ...]
    quota: QuotaUse
    permissions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ConsumeUnit:
    """A worker of a consumer group on one topic. Source: idl/consumer.thrift ConsumeUnit."""

    group: str
    resource: str
    worker: str
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LockedPartitions:
    """Outcome of lockPartition."""

    locked: tuple[int, ...]
    failed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """One updateOffset: ``offset`` is the last processed message, not the next one."""

    group: str
    resource: str
    partition: int
    worker: str
    offset: int
    last_offset: int | None = None  # set: refuse unless it equals the stored checkpoint


@dataclass(frozen=True, slots=True)
class CheckpointKey:
    """Whose checkpoint it is, in queryOrgOffset."""

    group: str
    resource: str
    partition: int


@dataclass(frozen=True, slots=True)
class PartitionConsumeUnit:
    """Progress of a group on one partition. Source: idl/metric.thrift PartitionConsumeUnit."""

    partition: int
    address: str  # peer address of the worker that holds it; empty: none
    checkpoint: int  # -1: none
    lag: int | None  # messages after the checkpoint that are retained; None: it is damaged
    worker: str = ""  # that holds it; empty: none


@dataclass(frozen=True, slots=True)
class PartitionQuotas:
    """An organisation's partition quotas: its requests and what was approved in total."""

    quotas: tuple[PartitionQuota, ...]
    approved: int


@dataclass(frozen=True, slots=True)
class PendingQuotas:
    """Requests that wait for an administrator."""

    quotas: tuple[PartitionQuota, ...]
    admin: bool  # the caller may approve

"""Pure rules of topics: what may be created and changed, and the topic that results."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from opentalos.catalog.access.grants import GRANTS_MAX, check_grant
from opentalos.catalog.quota.quotas import check_quota
from opentalos.catalog.topics.topic import BaseQuota, Topic, TopicStatus
from opentalos.model.checks import shown_value
from opentalos.model.errors import (
    BadRequest,
    ChangePartitionTooFast,
    InvalidName,
    InvalidTopicParams,
    PermissionDenied,
    SubResourceNameExists,
)
from opentalos.model.identity import Grantee, Permission, Principal
from opentalos.model.limits import TopicLimits
from opentalos.model.message import Durability
from opentalos.model.names import check_name, check_topic_name
from opentalos.model.settings.partitioning import PARTITIONER_KEY, Partitioning, partitioning_of
from opentalos.model.settings.topic_attributes import DURABILITY_KEY, RETENTION_BYTES_KEY

ORGANISATION_PREFIX, TEAM_PREFIX = "CL", "CI"
TEXT_CHARS_MAX = 256  # of an owner's name and such
_BYTES_COUNT = re.compile(r"[0-9]{1,18}")  # below 2 ** 63


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """What createTopic asks for; ``name`` is plain or ``organisation/name``."""

    name: str
    partitions: int | None  # required by the protocol: None is refused
    retention_s: int | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    quota: BaseQuota | None = None
    acl: Mapping[Grantee, Permission] = field(default_factory=dict)
    owner_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeChange:
    """What changeTopicAttribute sets; None leaves a field as it is.

    Keys of ``attributes`` are added or overwritten, those of ``removed`` taken away, the others
    stay.
    """

    partitions: int | None = None
    retention_s: int | None = None
    attributes: Mapping[str, str] | None = None
    removed: tuple[str, ...] = ()


def split_name(
    caller: Principal, name: str, check: Callable[[str], object] = check_topic_name
) -> tuple[str, str]:
    """Owner and plain name of a topic or table to create; ``check`` raises InvalidName.

    Raises: InvalidName, PermissionDenied.
    """
    organisation, slash, plain = name.rpartition("/")
    check(plain)
    if not slash:
        return caller.owner_id, plain
    check_name(organisation, "organisation")
    if not organisation.startswith(ORGANISATION_PREFIX):
        raise InvalidName(f"organisation {shown_value(organisation)} must start with CL")
    if organisation != caller.organisation and not caller.admin:
        raise PermissionDenied(f"{caller.id} is not a member of organisation {organisation}")
    return organisation, plain


def new_topic(
    new: NewTopic, owner_and_name: tuple[str, str], uuid: str, now_ms: int, limits: TopicLimits
) -> Topic:
    """The topic that createTopic makes. Raises: InvalidTopicParams, PermissionDenied."""
    owner, name = owner_and_name
    if new.partitions is None:
        raise InvalidTopicParams("partitionNumber is required")
    check_partitions(new.partitions, limits)
    retention_s = limits.retention_default_s if new.retention_s is None else new.retention_s
    check_retention(retention_s, limits)
    check_attributes(new.attributes, limits)
    check_text(new.owner_name, "ownerName")
    if len(new.acl) > GRANTS_MAX:
        raise InvalidTopicParams(f"{len(new.acl)} grants; the limit is {GRANTS_MAX}")
    acl: dict[Grantee, int] = {}
    for grantee, permission in new.acl.items():
        acl[check_grant(owner, grantee, int(permission))] = int(permission)
    return Topic(
        uuid=uuid,
        owner=owner,
        name=name,
        partitions=new.partitions,
        consumer_partitions=new.partitions,
        partitions_ever=new.partitions,
        retention_s=retention_s,
        attributes=dict(new.attributes),
        acl=acl,
        quota=None if new.quota is None else check_quota(new.quota),
        created_ms=now_ms,
        owner_name=new.owner_name,
    )


def changed_topic(topic: Topic, change: AttributeChange, now_ms: int, limits: TopicLimits) -> Topic:
    """The topic after changeTopicAttribute.

    Raises: InvalidTopicParams, ChangePartitionTooFast.
    """
    if change.retention_s is not None:
        check_retention(change.retention_s, limits)
        topic = replace(topic, retention_s=change.retention_s)
    if change.attributes or change.removed:
        kept = {key: value for key, value in topic.attributes.items() if key not in change.removed}
        attributes = {**kept, **(change.attributes or {})}
        check_attributes(attributes, limits)
        _check_same_partitioner(topic, attributes)
        topic = replace(topic, attributes=attributes)
    if change.partitions is not None and change.partitions != topic.partitions:
        topic = _with_partitions(topic, change.partitions, now_ms, limits)
    return topic


def _with_partitions(topic: Topic, partitions: int, now_ms: int, limits: TopicLimits) -> Topic:
    check_partitions(partitions, limits)
    if topic.shrinking:
        raise ChangePartitionTooFast(
            f"topic {topic.name} is still draining partitions {topic.partitions} to "
            f"{topic.consumer_partitions - 1}"
        )
    since_s = (now_ms - topic.partitions_changed_ms) / 1000
    if 0 <= since_s < limits.change_partition_interval_s:
        raise ChangePartitionTooFast(
            f"the partition count of {topic.name} changed {since_s:.1f} s ago, "
            f"limit {limits.change_partition_interval_s} s"
        )
    grows = partitions > topic.partitions
    return replace(
        topic,
        partitions=partitions,
        # Consumers keep the removed partitions until they have read them.
        consumer_partitions=partitions if grows else topic.consumer_partitions,
        partitions_ever=max(partitions, topic.partitions_ever),
        old_partitions=topic.partitions,
        partitions_changed_ms=now_ms,
    )


def shrunk_topic(topic: Topic) -> Topic:
    """The topic after a shrink has ended."""
    return replace(topic, consumer_partitions=topic.partitions)


def without_attribute(topic: Topic, key: str) -> Topic:
    """The topic without one key of its free attributes; an unknown key changes nothing.

    Raises: InvalidTopicParams: keys of messages would move.
    """
    attributes = {name: value for name, value in topic.attributes.items() if name != key}
    _check_same_partitioner(topic, attributes)
    return replace(topic, attributes=attributes)


def _check_same_partitioner(topic: Topic, attributes: Mapping[str, str]) -> None:
    """Raises: InvalidTopicParams."""
    if partitioning_of(attributes) is not topic.partitioning:
        raise InvalidTopicParams(
            f"the {PARTITIONER_KEY} of a topic cannot be changed, since its keys would move to "
            f"other partitions and lose their order; it is {topic.partitioning.value} for "
            f"{topic.name}: create another topic"
        )


def check_partitions(partitions: int, limits: TopicLimits) -> None:
    """Raises: InvalidTopicParams."""
    if not 1 <= partitions <= limits.partitions_max:
        raise InvalidTopicParams(
            f"partitionNumber must be 1 to {limits.partitions_max} ([topic] partitions_max), "
            f"not {partitions}"
        )


def check_retention(retention_s: int, limits: TopicLimits) -> None:
    """Raises: InvalidTopicParams."""
    if not limits.retention_min_s <= retention_s <= limits.retention_max_s:
        raise InvalidTopicParams(
            f"messageRetentionSecs {retention_s} is not in "
            f"{limits.retention_min_s}..{limits.retention_max_s}"
        )


def check_attributes(attributes: Mapping[str, str], limits: TopicLimits) -> None:
    """Raises: InvalidTopicParams."""
    used = len("".join((*attributes, *attributes.values())).encode())
    if used > limits.attributes_bytes_max:
        raise InvalidTopicParams(
            f"the attributes have {used} bytes; the limit is {limits.attributes_bytes_max}"
        )
    if "" in attributes:
        raise InvalidTopicParams("an attribute key must not be empty")
    durability = attributes.get(DURABILITY_KEY)
    if durability is not None and durability not in {level.value for level in Durability}:
        raise InvalidTopicParams(f"attribute {DURABILITY_KEY} must be synced or flushed")
    partitioner = attributes.get(PARTITIONER_KEY)
    if partitioner is not None and partitioner not in {each.value for each in Partitioning}:
        raise InvalidTopicParams(f"attribute {PARTITIONER_KEY} must be murmur2 or official")
    retention = attributes.get(RETENTION_BYTES_KEY)
    if retention is not None and not _BYTES_COUNT.fullmatch(retention):
        raise InvalidTopicParams(f"attribute {RETENTION_BYTES_KEY} must be a number of bytes")


def check_text(text: str, what: str) -> str:
    """Return a text for people if it is short enough. Raises: BadRequest."""
    if len(text) > TEXT_CHARS_MAX:
        raise BadRequest(f"{what} has {len(text)} characters; the limit is {TEXT_CHARS_MAX}")
    return text


def tombstone(topic: Topic) -> Topic:
    """The record of a topic whose deletion has begun; it only has to name the logs to remove."""
    return replace(topic, status=TopicStatus.DELETING, acl={}, attributes={})


def bound_topic(topic: Topic, organisation: str, team: str) -> Topic:
    """The topic after addSubResourceName.

    Raises: SubResourceNameExists: it is bound, or an organisation owns it; InvalidName.
    """
    check_name(organisation, "organisation")
    check_name(team, "team")
    if not organisation.startswith(ORGANISATION_PREFIX):
        raise InvalidName(f"organisation id {shown_value(organisation)} must start with CL")
    if not team.startswith(TEAM_PREFIX):
        raise InvalidName(f"team id {shown_value(team)} must start with CI")
    if topic.owner.startswith(ORGANISATION_PREFIX) or topic.bound_organisation:
        bound = topic.bound_organisation or topic.owner
        raise SubResourceNameExists(f"topic {topic.name} already belongs to organisation {bound}")
    return replace(topic, bound_organisation=organisation, bound_team=team)

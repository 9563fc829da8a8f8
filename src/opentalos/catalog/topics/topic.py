"""A topic of the catalog, and its record in the MetaStore (JSON with a version)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

from opentalos.catalog.access.acceptance import (
    Accepted,
    decode_accepted,
    encode_accepted,
    still_granted,
)
from opentalos.model.errors import CorruptLog, NewerFormat
from opentalos.model.identity import Grantee, GrantType
from opentalos.model.message import Durability
from opentalos.model.names import ResourceName
from opentalos.model.settings.partitioning import Partitioning, partitioning_of
from opentalos.model.settings.topic_attributes import DURABILITY_KEY, RETENTION_BYTES_KEY
from opentalos.wire.record_crc import checked, with_crc

FORMAT_VERSION = 1


class TopicStatus(IntEnum):
    """State of a topic. Source: idl/topic.thrift TopicStatus."""

    CREATING = 0
    ACTIVE = 1
    DELETING = 2
    DELETED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseQuota:
    """Limits of a user or topic; None takes the server's default, 0 means no limit.

    Source: idl/quota.thrift BaseQuota.
    """

    space_bytes: int | None = None
    put_requests_per_s: int | None = None
    get_requests_per_s: int | None = None
    put_bytes_per_s: int | None = None
    get_bytes_per_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One topic. A recreated topic has another uuid and so another resource name.

    ``partitions`` is what producers see, ``consumer_partitions`` what consumers see: larger only
    while a shrink drains. ``partitions_ever`` bounds the logs that a deletion has to remove.
    """

    uuid: str
    owner: str
    name: str
    partitions: int
    consumer_partitions: int
    partitions_ever: int
    retention_s: int
    status: TopicStatus = TopicStatus.ACTIVE
    attributes: Mapping[str, str] = field(default_factory=dict)
    acl: Mapping[Grantee, int] = field(default_factory=dict)
    accepted: Accepted = field(default_factory=dict)  # whose plain name may mean this topic
    quota: BaseQuota | None = None
    created_ms: int = 0
    old_partitions: int | None = None  # the count before the last change
    partitions_changed_ms: int = 0  # 0: never changed
    charge_id: str = ""
    owner_name: str = ""
    bound_organisation: str = ""  # by addSubResourceName
    bound_team: str = ""
    resource: str = field(init=False)
    # The access list as decisions need it: mask by identifier, whatever its type, and for guests.
    masks: Mapping[str, int] = field(init=False, repr=False, compare=False)
    guest_mask: int = field(init=False, repr=False, compare=False)
    public_mask: ClassVar[int] = 0  # nothing is granted to every caller with a key

    def __post_init__(self) -> None:
        name = str(ResourceName(self.owner, self.name, self.uuid))
        masks: dict[str, int] = {}
        guest_mask = 0
        for grantee, mask in self.acl.items():
            if grantee.type == GrantType.GUEST:
                guest_mask |= mask
            else:
                masks[grantee.identifier] = masks.get(grantee.identifier, 0) | mask
        object.__setattr__(self, "resource", name)
        object.__setattr__(self, "masks", masks)
        object.__setattr__(self, "guest_mask", guest_mask)
        object.__setattr__(self, "accepted", still_granted(self, self.accepted))

    @property
    def shrinking(self) -> bool:
        """Whether consumers still drain removed partitions."""
        return self.consumer_partitions > self.partitions

    @property
    def durability(self) -> Durability:
        """Which failures an acknowledged put survives."""
        return Durability(self.attributes.get(DURABILITY_KEY, Durability.SYNCED.value))

    @property
    def partitioning(self) -> Partitioning:
        """Which partition a key belongs to."""
        return partitioning_of(self.attributes)

    @property
    def retention_bytes(self) -> int | None:
        """Bytes kept per partition; None: only age decides."""
        text = self.attributes.get(RETENTION_BYTES_KEY)
        return None if text is None else int(text)


_PLAIN_FIELDS = (
    "uuid", "owner", "name", "partitions", "consumer_partitions", "partitions_ever",
    "retention_s", "created_ms", "old_partitions", "partitions_changed_ms", "charge_id",
    "owner_name", "bound_organisation", "bound_team",
)  # fmt: skip
_QUOTA_FIELDS = BaseQuota.__slots__


def encode_topic(topic: Topic) -> bytes:
    """The record's value."""
    record: dict[str, Any] = {name: getattr(topic, name) for name in _PLAIN_FIELDS}
    record["version"] = FORMAT_VERSION
    record["status"] = topic.status.name
    record["attributes"] = dict(topic.attributes)
    record["acl"] = [
        [grantee.type.name, grantee.identifier, mask] for grantee, mask in topic.acl.items()
    ]
    if topic.accepted:
        record["accepted"] = encode_accepted(topic.accepted)
    record["quota"] = encode_quota(topic.quota)
    return with_crc(json.dumps(record, separators=(",", ":"), sort_keys=True).encode())


def decode_topic(value: bytes) -> Topic:
    """Decode a record. Raises: NewerFormat; CorruptLog: not a topic record."""
    try:
        record = json.loads(checked(value))
        version = record["version"]
        if version != FORMAT_VERSION:
            raise NewerFormat(
                f"topic record has format {version}; this version supports formats up to 1"
            )
        plain = {name: record[name] for name in _PLAIN_FIELDS}
        return Topic(
            **plain,
            status=TopicStatus[record["status"]],
            attributes=record["attributes"],
            acl={Grantee(GrantType[kind], name): mask for kind, name, mask in record["acl"]},
            accepted=decode_accepted(record.get("accepted", {})),  # absent in older records
            quota=decode_quota(record["quota"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptLog(f"invalid topic record: {error}") from error


def encode_quota(quota: BaseQuota | None) -> dict[str, int | None] | None:
    """A quota as JSON."""
    return None if quota is None else {name: getattr(quota, name) for name in _QUOTA_FIELDS}


def decode_quota(record: Mapping[str, int | None] | None) -> BaseQuota | None:
    """A quota from JSON; unknown keys raise TypeError."""
    return None if record is None else BaseQuota(**record)

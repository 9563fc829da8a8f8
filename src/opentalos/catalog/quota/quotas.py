"""Quotas of users, topics and organisations: their values and defaults."""

from dataclasses import dataclass, field

from opentalos.catalog.topics.topic import BaseQuota
from opentalos.model.errors import BadRequest
from opentalos.model.limits import QuotaLimits
from opentalos.model.names import check_name

PARTITIONS_MAX = 10_000_000  # of one organisation's quota; fits the protocol's i32
ORGANISATION_PREFIX = "CL"
TEXT_CHARS_MAX = 1_000  # of a reason or an organisation's name


@dataclass(frozen=True, slots=True, kw_only=True)
class UserQuota:
    """A user's own limits; None takes the server's default. Source: idl/quota.thrift UserQuota."""

    rates: BaseQuota = field(default_factory=BaseQuota)
    topics: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionQuota:
    """Partitions of an organisation. Source: idl/quota.thrift PartitionQuotaInfo.

    ``reason`` is the requester's; ``note`` says why it was granted or requires manual approval.
    ``bytes_per_s``: the traffic it was granted for, 0 for what the partitions can carry.
    """

    organisation: str
    total: int
    used: int = 0
    reason: str = ""
    organisation_name: str = ""
    note: str = ""
    granted_ms: int = 0
    bytes_per_s: int = 0


def check_partition_quota(quota: PartitionQuota) -> None:
    """Raises: InvalidName, BadRequest."""
    check_name(quota.organisation, "organisation")
    if not 0 < quota.total <= PARTITIONS_MAX:
        raise BadRequest(f"a partition quota must be 1 to {PARTITIONS_MAX:,}, not {quota.total:,}")
    if max(len(quota.reason), len(quota.organisation_name)) > TEXT_CHARS_MAX:
        raise BadRequest(
            f"texts of a quota request must have at most {TEXT_CHARS_MAX:,} characters"
        )


def partitions_limit(
    owner: str, approved: PartitionQuota | None, limits: QuotaLimits
) -> int | None:
    """How many partitions an owner may have; None: no limit."""
    if approved is not None:
        return approved.total
    if owner.startswith(ORGANISATION_PREFIX):
        return limits.organisation_partitions
    return limits.user_partitions or None


def check_user_quota(quota: UserQuota) -> None:
    """Raises: BadRequest."""
    check_quota(quota.rates)
    if quota.topics is not None and quota.topics < 0:
        raise BadRequest("quota topics must be 0 or more")


def check_quota(quota: BaseQuota) -> BaseQuota:
    """Return ``quota`` if no value is negative. Raises: BadRequest."""
    for name in BaseQuota.__slots__:
        value = getattr(quota, name)
        if value is not None and value < 0:
            raise BadRequest(f"quota {name} must be 0 or more")
    return quota


def user_rates(limits: QuotaLimits, quota: UserQuota | None) -> BaseQuota:
    """A user's quota with every default filled in."""
    defaults = BaseQuota(
        space_bytes=limits.user_space_bytes,
        put_requests_per_s=limits.user_put_requests_per_s,
        get_requests_per_s=limits.user_get_requests_per_s,
        put_bytes_per_s=limits.user_put_bytes_per_s,
        get_bytes_per_s=limits.user_get_bytes_per_s,
    )
    return _filled(quota.rates if quota else None, defaults)


def topic_rates(limits: QuotaLimits, quota: BaseQuota | None) -> BaseQuota:
    """A topic's quota with every default filled in."""
    defaults = BaseQuota(
        space_bytes=limits.topic_space_bytes,
        put_requests_per_s=limits.topic_put_requests_per_s,
        get_requests_per_s=limits.topic_get_requests_per_s,
        put_bytes_per_s=limits.topic_put_bytes_per_s,
        get_bytes_per_s=limits.topic_get_bytes_per_s,
    )
    return _filled(quota, defaults)


def _filled(quota: BaseQuota | None, defaults: BaseQuota) -> BaseQuota:
    if quota is None:
        return defaults
    return BaseQuota(
        **{
            name: getattr(defaults, name) if getattr(quota, name) is None else getattr(quota, name)
            for name in BaseQuota.__slots__
        }
    )

"""Quotas of users, topics and organisations: their values and defaults."""

from dataclasses import dataclass, field

from opentalos.catalog.topic import BaseQuota
from opentalos.model.limits import QuotaLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class UserQuota:
    """A user's own limits; None takes the server's default. Source: quota.thrift UserQuota."""

    rates: BaseQuota = field(default_factory=BaseQuota)
    topics: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionQuota:
    """Partitions of an organisation. Source: quota.thrift PartitionQuotaInfo."""

    organisation: str
    total: int
    used: int = 0
    reason: str = ""
    organisation_name: str = ""


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

"""The share of the cluster's capacity that tenants use: grants and projected traffic. Pure."""

from collections.abc import Mapping

from opentalos.catalog.quota.decision import Taken, carried, usable
from opentalos.catalog.quota.projection import DAY_MS, Projection
from opentalos.catalog.quota.quotas import PartitionQuota
from opentalos.model.limits import QuotaApprovalLimits


class Claims:
    """Sums the use of all tenants but one; caches what it derives from each projection."""

    def __init__(self, limits: QuotaApprovalLimits) -> None:
        self._limits = limits
        self._expected: dict[str, tuple[Projection, int]] = {}  # of the tenants that are projected

    def taken(
        self,
        tenant: str,
        granted: Mapping[str, PartitionQuota],
        used: Mapping[str, int],
        projections: Mapping[str, Projection],
        now_ms: int,
    ) -> Taken:
        """The use of all others.

        A partition counts when it was granted or is used. Traffic is what is projected, or what a
        grant was given for as long as that is younger than the horizon or nothing is projected.

        Args: granted, used (partitions) and projections: by tenant.
        """
        partitions = sum(count for name, count in used.items() if name != tenant)
        bytes_per_s = sum(self._expected_of(projection) for projection in projections.values())
        if tenant in projections:
            bytes_per_s -= self._expected_of(projections[tenant])
        if len(self._expected) > len(projections):
            self._expected = {name: self._expected[name] for name in projections}
        for name, grant in granted.items():
            if name == tenant:
                continue
            partitions += max(0, grant.total - used.get(name, 0))
            projection = projections.get(name)
            expected = self._expected_of(projection) if projection else 0
            if self._new(grant, now_ms) or not usable(projection, now_ms, self._limits):
                bytes_per_s += max(0, self._reserved(grant) - expected)
        return Taken(partitions=partitions, bytes_per_s=bytes_per_s)

    def _new(self, grant: PartitionQuota, now_ms: int) -> bool:
        return now_ms - grant.granted_ms < self._limits.horizon_days * DAY_MS

    def _reserved(self, grant: PartitionQuota) -> int:
        return grant.bytes_per_s or carried(grant.total, self._limits)

    def _expected_of(self, projection: Projection) -> int:
        """The traffic that the projection expects while it is valid."""
        known = self._expected.get(projection.tenant)
        if known is not None and known[0] is projection:
            return known[1]
        limits = self._limits
        days = limits.horizon_days + limits.projection_age_max_days
        expected = projection.at_most(days, limits.spreads)
        self._expected[projection.tenant] = (projection, expected)
        return expected

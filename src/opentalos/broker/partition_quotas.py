"""Quota use cases of organisations: partitions, asked for and approved."""

from opentalos.broker.values import PartitionQuota, PartitionQuotas, PendingQuotas
from opentalos.model.identity import Principal


class PartitionQuotaService:
    """How many partitions an organisation may have. Source: talos-admin.md section 4."""

    async def apply_quota(self, caller: Principal, wanted: PartitionQuota) -> None:
        """Ask for ``wanted.total`` partitions; replaces a request that still waits."""
        raise NotImplementedError

    async def auto_apply_quota(self, caller: Principal, wanted: PartitionQuota) -> None:
        """Raises: NotSupported: automatic approval comes later."""
        raise NotImplementedError

    def list_quota(self, caller: Principal) -> PartitionQuotas:
        """The caller's organisation's quota."""
        raise NotImplementedError

    def list_pending_quota(self, caller: Principal) -> PendingQuotas:
        """Requests that wait: all for an administrator, else the caller's organisation's."""
        raise NotImplementedError

    async def approve_quota(self, caller: Principal, wanted: PartitionQuota) -> PendingQuotas:
        """Grant ``wanted.total`` partitions; for administrators."""
        raise NotImplementedError

    async def revoke_quota(self, caller: Principal, wanted: PartitionQuota) -> PendingQuotas:
        """Refuse what waits, or take back what was approved; for administrators."""
        raise NotImplementedError

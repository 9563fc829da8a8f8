"""Quota use cases of organisations: partitions, asked for and approved."""

from dataclasses import replace

from opentalos.broker.context import BrokerContext
from opentalos.broker.values import PartitionQuota, PartitionQuotas, PendingQuotas
from opentalos.catalog.quota_records import QuotaCatalog
from opentalos.catalog.quotas import check_partition_quota
from opentalos.model.errors import BadRequest, NotSupported, QuotaNotExist
from opentalos.model.identity import Principal


class PartitionQuotaService:
    """How many partitions an organisation may have. Source: talos-admin.md section 4."""

    def __init__(self, context: BrokerContext, quotas: QuotaCatalog) -> None:
        self._context, self._quotas = context, quotas

    async def apply_quota(self, caller: Principal, wanted: PartitionQuota) -> None:
        """Ask for ``wanted.total`` partitions; replaces a request that still waits.

        Raises: BadRequest; PermissionDenied: for another organisation than the caller's.
        """
        wanted = self._own(caller, wanted, "apply for quota")
        await self._quotas.set_pending(wanted)

    async def auto_apply_quota(self, caller: Principal, wanted: PartitionQuota) -> None:
        """Raises: NotSupported: automatic approval comes later."""
        self._own(caller, wanted, "apply for quota")
        raise NotSupported("autoApplyQuota: automatic approval is not supported yet")

    def list_quota(self, caller: Principal) -> PartitionQuotas:
        """The quota of the caller's organisation; of all that have one for an administrator."""
        if caller.organisation:
            quota = self._in_force(caller.organisation)
            return PartitionQuotas((quota,), quota.total)
        if caller.admin:
            known = sorted(self._quotas.approved())
            quotas = tuple(self._in_force(organisation) for organisation in known)
            return PartitionQuotas(quotas, sum(quota.total for quota in quotas))
        return PartitionQuotas((), 0)

    def list_pending_quota(self, caller: Principal) -> PendingQuotas:
        """Requests that wait: all for an administrator, else the caller's organisation's."""
        pending = self._quotas.pending()
        names = sorted(pending) if caller.admin else [caller.organisation]
        waiting = tuple(
            replace(pending[name], used=self._in_force(name).used)
            for name in names
            if name in pending
        )
        return PendingQuotas(waiting, caller.admin)

    async def approve_quota(self, caller: Principal, wanted: PartitionQuota) -> PendingQuotas:
        """Grant ``wanted.total`` partitions; for administrators.

        Another amount than what was asked for is fine, and so is a grant nobody asked for.

        Raises: PermissionDenied, BadRequest.
        """
        authorizer = self._context.authorizer
        authorizer.authorize_admin(caller, "approve quota", wanted.organisation)
        check_partition_quota(wanted)
        asked = self._quotas.pending().get(wanted.organisation, wanted)
        await self._quotas.approve(replace(asked, total=wanted.total, used=0))
        return self.list_pending_quota(caller)

    async def approve_request(
        self, caller: Principal, organisation: str, total: int | None
    ) -> PendingQuotas:
        """Grant what an organisation asked for, or another total; for administrators.

        Raises: PermissionDenied, BadRequest; QuotaNotExist: it asked for nothing.
        """
        self._context.authorizer.authorize_admin(caller, "approve quota", organisation)
        asked = self._quotas.pending().get(organisation)
        if total is None:
            if asked is None:
                raise QuotaNotExist(f"no quota request of {organisation} waits")
            total = asked.total
        wanted = PartitionQuota(organisation=organisation, total=total)
        return await self.approve_quota(caller, wanted)

    async def revoke_quota(self, caller: Principal, wanted: PartitionQuota) -> PendingQuotas:
        """Refuse what waits, else take back what was approved; for administrators.

        Raises: PermissionDenied; QuotaNotExist: neither is there.
        """
        authorizer = self._context.authorizer
        authorizer.authorize_admin(caller, "revoke quota", wanted.organisation)
        if wanted.organisation in self._quotas.pending():
            await self._quotas.drop_pending(wanted.organisation)
        else:
            await self._quotas.revoke(wanted.organisation)
        return self.list_pending_quota(caller)

    def _in_force(self, organisation: str) -> PartitionQuota:
        """What an organisation may use, and what it uses."""
        approved = self._quotas.approved().get(organisation)
        used = sum(topic.partitions for topic in self._context.topics.owned_by(organisation))
        if approved is None:
            total = self._context.config.quota.organisation_partitions
            return PartitionQuota(organisation=organisation, total=total, used=used)
        return replace(approved, used=used)

    def _own(self, caller: Principal, wanted: PartitionQuota, action: str) -> PartitionQuota:
        organisation = wanted.organisation or caller.organisation
        if not organisation:
            raise BadRequest("a partition quota belongs to an organisation")
        if caller.anonymous or (organisation != caller.organisation and not caller.admin):
            self._context.authorizer.refuse(caller, action, organisation)
        wanted = replace(wanted, organisation=organisation, used=0)
        check_partition_quota(wanted)
        return wanted

"""PartitionQuotaService: partition quotas of organisations: requested, decided, approved."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from opentalos.broker.audit.trail import audited, itself
from opentalos.broker.context import BrokerContext
from opentalos.broker.values import (
    Decision,
    Outcome,
    PartitionQuota,
    PartitionQuotas,
    PendingQuotas,
    Projection,
)
from opentalos.catalog.access.roles import may_administer
from opentalos.catalog.quota.claims import Claims
from opentalos.catalog.quota.decision import Request, decide
from opentalos.catalog.quota.projection_records import ProjectionCatalog
from opentalos.catalog.quota.quotas import check_partition_quota
from opentalos.catalog.quota.records import Granted, QuotaCatalog
from opentalos.model.errors import (
    BadRequest,
    QuotaAutoApproveFailed,
    QuotaNotExist,
)
from opentalos.model.identity import Principal

_AUDIT = logging.getLogger("opentalos.audit")


def _decided(decision: Decision) -> Mapping[str, object]:
    return {"decision": decision.outcome.value, "reason": decision.reason}


class PartitionQuotaService:
    """How many partitions an organisation may have.

    Source: docs/protocol/administration.md#quotas.
    """

    def __init__(
        self, context: BrokerContext, quotas: QuotaCatalog, projections: ProjectionCatalog
    ) -> None:
        self._context, self._quotas, self._projections = context, quotas, projections
        self._audit = context.audit
        self._claims = Claims(context.config.quota_approval)
        self.decided = Counter({outcome.value: 0 for outcome in Outcome})  # since the start

    @audited("apply for quota", "wanted.organisation", "wanted.total", owner=itself)
    async def apply_quota(self, caller: Principal, wanted: PartitionQuota) -> None:
        """Request ``wanted.total`` partitions; replaces a pending request.

        Raises: BadRequest; PermissionDenied: for another organisation than the caller's.
        """
        wanted = self._own(caller, wanted, "apply for quota")
        await self._context.changes.admit(caller)
        await self._quotas.set_pending(wanted)

    async def auto_apply_quota(self, caller: Principal, wanted: PartitionQuota) -> Decision:
        """Like ``decide_quota``, for callers that learn the outcome by an error.

        Raises: QuotaAutoApproveFailed: rejected, or left to a person; the text says which.
        """
        decision = await self.decide_quota(caller, wanted)
        match decision.outcome:
            case Outcome.REJECT:
                raise QuotaAutoApproveFailed(f"rejected: {decision.reason}")
            case Outcome.HUMAN:
                raise QuotaAutoApproveFailed(f"the request is pending: {decision.reason}")
        return decision

    @audited(
        "apply for quota", "wanted.organisation", "wanted.total", owner=itself, secretless=_decided
    )
    async def decide_quota(self, caller: Principal, wanted: PartitionQuota) -> Decision:
        """Grant ``wanted.total`` partitions at once, reject them, or let the request wait.

        Raises: BadRequest; PermissionDenied: for another organisation than the caller's.
        """
        wanted = self._own(caller, wanted, "apply for quota")
        await self._context.changes.admit(caller)
        now_ms, found = self._context.clock.wall_ms(), list[Decision]()

        def judge(granted: Granted) -> PartitionQuota | None:
            decision = self._judge(wanted, granted, now_ms)
            found[:] = [decision]
            if not decision.granted:
                return None
            bytes_per_s = max(1, decision.bytes_per_s)  # 0 would stand for the most
            return replace(wanted, note=decision.reason, granted_ms=now_ms, bytes_per_s=bytes_per_s)

        await self._quotas.grant(judge, now_ms)
        [decision] = found
        if decision.outcome is Outcome.HUMAN:
            await self._quotas.set_pending(replace(wanted, note=decision.reason))
        self._report(caller, wanted, decision)
        return decision

    @audited("store quota projections")
    async def put_projections(self, caller: Principal, projections: Sequence[Projection]) -> None:
        """Store what tenants' traffic is expected to be; for administrators. May be repeated.

        Raises: PermissionDenied, BadRequest, QuotaExceeded.
        """
        self._context.authorizer.authorize_admin(caller, "store quota projections")
        await self._projections.put(projections)

    def projections(self, caller: Principal) -> Mapping[str, Projection]:
        """By tenant: all for an administrator, else that of the caller and its organisation."""
        found = self._projections.all()
        if may_administer(caller, "list quota projections"):
            return found
        own = {caller.owner_id, caller.id} if not caller.anonymous else set()
        return {tenant: found[tenant] for tenant in sorted(own) if tenant in found}

    def list_quota(self, caller: Principal) -> PartitionQuotas:
        """The quota of the caller's organisation; of all that have one for roles that list them."""
        if may_administer(caller, "list quotas"):
            known = sorted(self._quotas.approved())
            quotas = tuple(self._in_force(organisation) for organisation in known)
            return PartitionQuotas(quotas, sum(quota.total for quota in quotas))
        if caller.organisation:
            quota = self._in_force(caller.organisation)
            return PartitionQuotas((quota,), quota.total)
        return PartitionQuotas((), 0)

    def list_pending_quota(self, caller: Principal) -> PendingQuotas:
        """Pending requests: all for an administrator, else the caller's organisation's."""
        pending = self._quotas.pending()
        everything = may_administer(caller, "list quotas")
        names = sorted(pending) if everything else [caller.organisation]
        waiting = tuple(
            replace(pending[name], used=self._in_force(name).used)
            for name in names
            if name in pending
        )
        return PendingQuotas(waiting, caller.admin)

    @audited("approve quota", "wanted.organisation", "wanted.total", "wanted.note", owner=itself)
    async def approve_quota(self, caller: Principal, wanted: PartitionQuota) -> PendingQuotas:
        """Grant ``wanted.total`` partitions, with ``wanted.note`` as reason; for administrators.

        The amount may differ from the request, and there need not be one.

        Raises: PermissionDenied, BadRequest.
        """
        authorizer = self._context.authorizer
        authorizer.authorize_admin(caller, "approve quota", wanted.organisation)
        check_partition_quota(wanted)
        asked = self._quotas.pending().get(wanted.organisation, wanted)
        now_ms = self._context.clock.wall_ms()
        granted = replace(asked, total=wanted.total, used=0, note=wanted.note, granted_ms=now_ms)
        await self._quotas.grant(lambda known: granted, now_ms)
        return self.list_pending_quota(caller)

    async def approve_request(
        self, caller: Principal, organisation: str, total: int | None, note: str = ""
    ) -> PendingQuotas:
        """Grant an organisation's request, or another total; for administrators.

        Args: note: why, for the organisation.

        Raises: PermissionDenied, BadRequest; QuotaNotExist: there is no request.
        """
        self._context.authorizer.authorize_admin(caller, "approve quota", organisation)
        asked = self._quotas.pending().get(organisation)
        if total is None:
            if asked is None:
                raise QuotaNotExist(f"no quota request of {organisation} is pending")
            total = asked.total
        wanted = PartitionQuota(organisation=organisation, total=total, note=note)
        return await self.approve_quota(caller, wanted)

    @audited("revoke quota", "wanted.organisation", "wanted.note", owner=itself)
    async def revoke_quota(self, caller: Principal, wanted: PartitionQuota) -> PendingQuotas:
        """Reject a pending request, else revoke an approved quota; for administrators.

        ``wanted.note``, the reason, is in the audit, which the organisation can read.

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

    def _judge(self, wanted: PartitionQuota, granted: Granted, now_ms: int) -> Decision:
        tenant, config = wanted.organisation, self._context.config
        used, projections = Counter[str](), self._projections.all()
        for topic in self._context.topics.all():
            used[topic.owner] += topic.partitions
        in_force = self._in_force(tenant).total
        return decide(
            Request(total=wanted.total, in_force=in_force, at_ms=now_ms),
            projections.get(tenant),
            self._claims.taken(tenant, granted, used, projections, now_ms),
            config.quota_approval,
        )

    def _report(self, caller: Principal, wanted: PartitionQuota, decision: Decision) -> None:
        self.decided[decision.outcome.value] += 1
        fields = {
            "principal": caller.id,
            "action": "apply for quota",
            "organisation": wanted.organisation,
            "total": wanted.total,
            "outcome": decision.outcome.value,
            "reason": decision.reason,
        }
        _AUDIT.warning(
            "quota principal=%r action=%r organisation=%r total=%d outcome=%s reason=%r",
            *fields.values(),
            extra={"audit": fields},
        )

    def _own(self, caller: Principal, wanted: PartitionQuota, action: str) -> PartitionQuota:
        organisation = wanted.organisation or caller.organisation
        if not organisation:
            raise BadRequest("a partition quota belongs to an organisation")
        if caller.anonymous or (organisation != caller.organisation and not caller.admin):
            self._context.authorizer.refuse(caller, action, organisation)
        self._context.authorizer.authorize_own(caller, action, organisation)
        wanted = replace(wanted, organisation=organisation, used=0)
        check_partition_quota(wanted)
        return wanted

"""LeaseService: leases by which processes of a tenant agree who acts, such as runs of pipelines."""

from collections.abc import Sequence

from opentalos.broker.audit.trail import audited
from opentalos.broker.context import BrokerContext
from opentalos.catalog.access.roles import may_coordinate, may_look
from opentalos.catalog.leases.lease import Lease, LeaseRequest
from opentalos.catalog.leases.leases import LeaseCatalog, ObservedLease
from opentalos.model.identity import Principal


class LeaseService:
    """Each tenant has names of its own; administrators may name another tenant.

    Takeovers and releases are audited. Renewals and refusals, which come every few seconds, are
    not.
    """

    def __init__(self, context: BrokerContext, leases: LeaseCatalog) -> None:
        self._context, self._leases, self._audit = context, leases, context.audit

    async def held(self, caller: Principal, tenant: str = "") -> Sequence[ObservedLease]:
        """A tenant's leases by name; its own without a ``tenant``. Raises: PermissionDenied."""
        if not may_look(caller):
            self._context.authorizer.refuse(caller, "see leases", tenant)
        return await self._leases.all(self._tenant(caller, tenant))

    async def take(self, caller: Principal, request: LeaseRequest, tenant: str = "") -> Lease:
        """Take a lease that is free, expired or the holder's own.

        Raises: LeaseHeld, PermissionDenied, QuotaExceeded; Unavailable; OutcomeUnknown: a
            repetition by the same holder finds out.
        """
        self._check(caller, request.name)
        await self._leases.check_free(self._tenant(caller, tenant), request)
        return await self._take(caller, request, tenant)

    async def renew(
        self, caller: Principal, request: LeaseRequest, epoch: int, tenant: str = ""
    ) -> Lease:
        """Renew a lease that is held under ``epoch``. Raises: LeaseNotHeld; as ``take``."""
        self._check(caller, request.name)
        await self._context.changes.admit(caller)
        return await self._leases.renew(self._tenant(caller, tenant), request, epoch)

    @audited("release a lease", "name", "epoch", "tenant")
    async def release(
        self, caller: Principal, name: str, epoch: int | None = None, tenant: str = ""
    ) -> None:
        """Make a lease free at once; without an ``epoch`` whoever holds it.

        Raises: LeaseNotHeld; as ``take``.
        """
        self._check(caller, name)
        await self._context.changes.admit(caller)
        await self._leases.release(self._tenant(caller, tenant), name, epoch)

    @audited("take a lease", "request.name", "request.holder", "tenant")
    async def _take(self, caller: Principal, request: LeaseRequest, tenant: str) -> Lease:
        await self._context.changes.admit(caller)
        return await self._leases.take(self._tenant(caller, tenant), request)

    def _check(self, caller: Principal, name: str) -> None:
        if not may_coordinate(caller):
            self._context.authorizer.refuse(caller, "hold a lease", name)

    def _tenant(self, caller: Principal, tenant: str) -> str:
        if tenant not in ("", caller.owner_id):
            self._context.authorizer.authorize_admin(caller, "use leases of another tenant", tenant)
        return tenant or caller.owner_id

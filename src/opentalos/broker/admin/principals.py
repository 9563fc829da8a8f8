"""PrincipalService: users, teams, organisations and their keys."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from opentalos.broker.admin.keys.ends import (
    KeyEnds,
    authorize_key,
    check_not_wider,
    owner_of_key,
)
from opentalos.broker.audit.trail import AuditTrail, audited, itself
from opentalos.broker.values import IssuedKey, LiveKey, PrincipalInfo
from opentalos.catalog.access.authorize import Authorizer
from opentalos.catalog.access.roles import may_administer, with_role
from opentalos.catalog.principals.key_uses import KeyUses
from opentalos.catalog.principals.principals import ROOT_ID, PrincipalDirectory
from opentalos.model.identity import UNLIMITED, KeyLimits, Principal


def _issued(key: IssuedKey) -> Mapping[str, object]:
    return {"key_id": key.key_id}


class PrincipalService:
    """Principals and their keys. Changes are for administrators.

    ``marked``: whoever accepts a key of ``key`` stores its id there, so that its last use is known.
    """

    def __init__(
        self,
        directory: PrincipalDirectory,
        authorizer: Authorizer,
        uses: KeyUses,
        audit: AuditTrail,
    ) -> None:
        self._directory, self._authorizer, self._uses = directory, authorizer, uses
        self._audit = audit
        self.marked = uses.marked
        self.ends = KeyEnds(directory, authorizer, audit)

    def key(self, key_id: str) -> LiveKey | None:
        """The key for a signature check; sync, in memory, for the hot path."""
        return self._directory.key(key_id)

    async def ensure_root(self, key_id: str, secret: str) -> Principal:
        """Create the administrator ``root`` with this key if missing; called by the server."""
        return await self._directory.ensure_root(key_id, secret)

    def has_root(self) -> bool:
        """Whether the administrator ``root`` exists (else the server makes a key file)."""
        return self._directory.get(ROOT_ID) is not None

    @audited(
        "create a principal", "principal_id", "organisation", "team", "admin", "role", owner=itself
    )
    async def create(
        self,
        caller: Principal,
        principal_id: str,
        *,
        organisation: str = "",
        team: str = "",
        admin: bool = False,
        role: str = "",
    ) -> Principal:
        """Add a principal. ``role``: a name of ROLE_NAMES; empty: as ``admin`` says.

        Raises: PrincipalExists, InvalidName, BadRequest, PermissionDenied.
        """
        self._authorizer.authorize_admin(caller, "create a principal", principal_id)
        wanted = Principal(id=principal_id, number=0, admin=admin)
        if role:
            wanted = with_role(wanted, role)
        return await self._directory.create(
            principal_id, organisation, team, wanted.admin, wanted.role
        )

    @audited("create a key", "principal_id", owner=itself, secretless=_issued)
    async def create_key(
        self, caller: Principal, principal_id: str, limits: KeyLimits | None = None
    ) -> IssuedKey:
        """Issue a key to a principal; its own, or any for an administrator. ``limits``: None: as
        the caller's own key.

        Raises: QuotaExceeded when two are live already, PrincipalNotExist, BadRequest;
            PermissionDenied, also for a key that may do more than the caller's.
        """
        self._authorize(caller, "create a key", principal_id, principal_id)
        limits = limits or caller.limits or UNLIMITED
        check_not_wider(caller, limits)
        return await self._directory.create_key(principal_id, limits)

    @audited("rotate a key", "key_id", owner=owner_of_key, secretless=_issued)
    async def rotate_key(
        self, caller: Principal, key_id: str, expires_ms: int | None = None
    ) -> IssuedKey:
        """Issue the key that follows this one to its principal; both are valid until one is
        disabled. It has the same limits. ``expires_ms``: of the new key; None: as the former one.

        Raises: QuotaExceeded: two are live already; PrincipalNotExist; BadRequest;
            PermissionDenied.
        """
        key = self._directory.key(key_id)
        self._authorize(caller, "rotate a key", key_id, key.principal.id if key else "")
        limits = (key and key.limits) or UNLIMITED
        if expires_ms is not None:
            limits = replace(limits, expires_ms=expires_ms)
        check_not_wider(caller, limits)
        return await self._directory.create_key(self._directory.owner_of_key(key_id), limits)

    @audited("disable a key", "key_id", owner=owner_of_key)
    async def disable_key(self, caller: Principal, key_id: str) -> None:
        """Disable a key permanently; for administrators and the principal itself."""
        key = self._directory.key(key_id)
        self._authorize(caller, "disable a key", key_id, key.principal.id if key else "")
        await self._directory.disable_key(key_id)

    @audited("change a principal", "principal_id", "role", owner=itself)
    async def set_role(self, caller: Principal, principal_id: str, role: str) -> None:
        """Give a principal another role of ROLE_NAMES; for administrators. Raises: BadRequest."""
        self._authorizer.authorize_admin(caller, "change a principal", principal_id)
        await self._directory.change(principal_id, role=role)

    @audited("disable a principal", "principal_id", "disabled", owner=itself)
    async def set_disabled(self, caller: Principal, principal_id: str, disabled: bool) -> None:
        """Disable or enable a principal; for administrators."""
        self._authorizer.authorize_admin(caller, "disable a principal", principal_id)
        await self._directory.change(principal_id, disabled=disabled)

    @audited("change a principal", "principal_id", "refuse", owner=itself)
    async def set_refuse_replays(self, caller: Principal, principal_id: str, refuse: bool) -> None:
        """Accept each signed request of a principal only once; for administrators.

        Clients that make the same call twice within a second and sign no id are refused then.
        """
        self._authorizer.authorize_admin(caller, "change a principal", principal_id)
        await self._directory.change(principal_id, refuse_replays=refuse)

    def find(self, caller: Principal, principal_id: str) -> PrincipalInfo | None:
        """One principal, visible to itself and to roles that list principals."""
        itself = not caller.anonymous and caller.id == principal_id
        if not (itself or may_administer(caller, "list principals")):
            return None
        info = self._directory.info(principal_id)
        return info and self._with_uses(info)

    def list_principals(self, caller: Principal) -> Sequence[PrincipalInfo]:
        """All principals for roles that list them, else the caller only."""
        everybody = self._directory.list_all()
        if not may_administer(caller, "list principals"):
            everybody = [info for info in everybody if info.principal.id == caller.id]
        return [self._with_uses(info) for info in everybody]

    def _authorize(self, caller: Principal, action: str, resource: str, owner: str) -> None:
        authorize_key(self._authorizer, caller, action, resource, owner)

    def _with_uses(self, info: PrincipalInfo) -> PrincipalInfo:
        last_ms, owner = self._uses.last_ms, info.principal.id
        keys = tuple(replace(key, last_used_ms=last_ms(owner, key.key_id)) for key in info.keys)
        return replace(info, keys=keys)

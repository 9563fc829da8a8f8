"""PrincipalService: users, teams, organisations and their keys."""

from collections.abc import Mapping, Sequence

from opentalos.broker.audit.trail import AuditTrail, audited, itself
from opentalos.broker.values import IssuedKey, LiveKey, PrincipalInfo
from opentalos.catalog.access.authorize import Authorizer
from opentalos.catalog.principals.principals import ROOT_ID, PrincipalDirectory
from opentalos.model.identity import Principal


def _issued(key: IssuedKey) -> Mapping[str, object]:
    return {"key_id": key.key_id}


def _owner_of_key(service: "PrincipalService", key_id: str) -> str:
    key = service.key(key_id)
    return key.principal.id if key is not None else ""


class PrincipalService:
    """Principals and their keys. Changes are for administrators."""

    def __init__(
        self, directory: PrincipalDirectory, authorizer: Authorizer, audit: AuditTrail
    ) -> None:
        self._directory, self._authorizer, self._audit = directory, authorizer, audit

    def key(self, key_id: str) -> LiveKey | None:
        """The key for a signature check; sync, in memory, for the hot path."""
        return self._directory.key(key_id)

    async def ensure_root(self, key_id: str, secret: str) -> Principal:
        """Create the administrator ``root`` with this key if missing; called by the server."""
        return await self._directory.ensure_root(key_id, secret)

    def has_root(self) -> bool:
        """Whether the administrator ``root`` exists (else the server makes a key file)."""
        return self._directory.get(ROOT_ID) is not None

    @audited("create a principal", "principal_id", "organisation", "team", "admin", owner=itself)
    async def create(
        self,
        caller: Principal,
        principal_id: str,
        *,
        organisation: str = "",
        team: str = "",
        admin: bool = False,
    ) -> Principal:
        """Add a principal. Raises: PrincipalExists, InvalidName, PermissionDenied."""
        self._authorizer.authorize_admin(caller, "create a principal", principal_id)
        return await self._directory.create(principal_id, organisation, team, admin)

    @audited("create a key", "principal_id", owner=itself, secretless=_issued)
    async def create_key(self, caller: Principal, principal_id: str) -> IssuedKey:
        """Issue a key to a principal; its own, or any for an administrator.

        Raises: QuotaExceeded when two are live already, PrincipalNotExist, PermissionDenied.
        """
        if caller.anonymous or caller.id != principal_id:
            self._authorizer.authorize_admin(caller, "create a key", principal_id)
        return await self._directory.create_key(principal_id)

    @audited("rotate a key", "key_id", owner=_owner_of_key, secretless=_issued)
    async def rotate_key(self, caller: Principal, key_id: str) -> IssuedKey:
        """Issue the key that follows this one to its principal; both are valid until one is
        disabled.

        Raises: QuotaExceeded: two are live already; PrincipalNotExist; PermissionDenied.
        """
        key = self._directory.key(key_id)
        if caller.anonymous or key is None or key.principal.id != caller.id:
            self._authorizer.authorize_admin(caller, "rotate a key", key_id)
        return await self._directory.create_key(self._directory.owner_of_key(key_id))

    @audited("disable a key", "key_id", owner=_owner_of_key)
    async def disable_key(self, caller: Principal, key_id: str) -> None:
        """Disable a key permanently; for administrators and the principal itself."""
        key = self._directory.key(key_id)
        if caller.anonymous or key is None or key.principal.id != caller.id:
            self._authorizer.authorize_admin(caller, "disable a key", key_id)
        await self._directory.disable_key(key_id)

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
        """One principal, visible to itself and administrators."""
        if caller.anonymous or not (caller.admin or caller.id == principal_id):
            return None
        return self._directory.info(principal_id)

    def list_principals(self, caller: Principal) -> Sequence[PrincipalInfo]:
        """All principals for an administrator, else the caller only."""
        everybody = self._directory.list_all()
        if caller.admin:
            return everybody
        return [info for info in everybody if info.principal.id == caller.id]

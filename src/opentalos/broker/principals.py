"""Principal use cases: users, teams, organisations and their keys."""

from collections.abc import Sequence

from opentalos.broker.values import IssuedKey, LiveKey, PrincipalInfo
from opentalos.model.identity import Principal


class PrincipalService:
    """Who exists and with which keys. Changes are for administrators."""

    def key(self, key_id: str) -> LiveKey | None:
        """The key for a signature check; sync, in memory, for the hot path."""
        raise NotImplementedError

    async def ensure_root(self, key_id: str, secret: str) -> Principal:
        """Make the administrator ``root`` with this key if it has not; called by the server."""
        raise NotImplementedError

    def has_root(self) -> bool:
        """Whether the administrator ``root`` exists (else the server makes a key file)."""
        raise NotImplementedError

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
        raise NotImplementedError

    async def create_key(self, caller: Principal, principal_id: str) -> IssuedKey:
        """Issue a key; at most two are live at once."""
        raise NotImplementedError

    async def disable_key(self, caller: Principal, key_id: str) -> None:
        """Disable a key for ever; an administrator, or the principal itself."""
        raise NotImplementedError

    async def set_disabled(self, caller: Principal, principal_id: str, disabled: bool) -> None:
        """Lock a principal out, or let it in again."""
        raise NotImplementedError

    def list_principals(self, caller: Principal) -> Sequence[PrincipalInfo]:
        """Everybody for an administrator, else the caller alone."""
        raise NotImplementedError

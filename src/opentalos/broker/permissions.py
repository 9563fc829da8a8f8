"""Permission use cases: who may do what with a topic."""

from collections.abc import Mapping

from opentalos.model.identity import Grantee, Permission, Principal


class PermissionService:
    """The access list of a topic."""

    async def set_permission(
        self, caller: Principal, resource: str, grantee: Grantee, permission: Permission
    ) -> None:
        """Overwrite what the grantee may do."""
        raise NotImplementedError

    async def revoke_permission(self, caller: Principal, resource: str, grantee: Grantee) -> None:
        """Take everything back; a grantee without a grant is no error."""
        raise NotImplementedError

    def list_permission(self, caller: Principal, resource: str) -> Mapping[str, int]:
        """Identifier to mask, the owner included."""
        raise NotImplementedError

    def get_permission(self, caller: Principal, resource: str, grantee: Grantee) -> int:
        """Mask of one grantee; 0 if nothing was granted."""
        raise NotImplementedError

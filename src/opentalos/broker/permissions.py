"""Permission use cases: who may do what with a topic."""

from collections.abc import Mapping

from opentalos.broker.context import BrokerContext
from opentalos.catalog.grants import grant_of, granted, grants_of, revoked
from opentalos.model.identity import Grantee, Permission, Principal


class PermissionService:
    """The access list of a topic. Source: talos-admin.md section 3."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    async def set_permission(
        self, caller: Principal, resource: str, grantee: Grantee, permission: Permission
    ) -> None:
        """Overwrite what the grantee may do.

        Raises: BadRequest, PermissionDenied: not grantable; TopicNotExist.
        """
        topic = self._context.topic(caller, Permission.CHANGE_PERMISSION, resource)
        mask = int(permission)
        await self._context.topics.change(topic, lambda now: granted(now, grantee, mask))

    async def revoke_permission(self, caller: Principal, resource: str, grantee: Grantee) -> None:
        """Take everything back; a grantee without a grant is no error."""
        topic = self._context.topic(caller, Permission.CHANGE_PERMISSION, resource)
        await self._context.topics.change(topic, lambda now: revoked(now, grantee))

    def list_permission(self, caller: Principal, resource: str) -> Mapping[str, int]:
        """Identifier to mask, the owner included."""
        return grants_of(self._context.topic(caller, Permission.DESCRIBE_TOPIC, resource))

    def get_permission(self, caller: Principal, resource: str, grantee: Grantee) -> int:
        """Mask of one grantee; 0 if nothing was granted."""
        return grant_of(self._context.topic(caller, Permission.DESCRIBE_TOPIC, resource), grantee)

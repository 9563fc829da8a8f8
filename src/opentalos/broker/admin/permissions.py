"""PermissionService: the access list of a topic."""

from collections.abc import Mapping

from opentalos.broker.context import BrokerContext
from opentalos.broker.values import Topic
from opentalos.catalog.access.grants import grant_of, granted, grants_of, revoked
from opentalos.model.identity import GUEST, Grantee, GrantType, Permission, Principal


class PermissionService:
    """The access list of a topic. Source: docs/protocol/administration.md#permissions."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    async def set_permission(
        self, caller: Principal, resource: str, grantee: Grantee, permission: Permission
    ) -> None:
        """Overwrite the grantee's permissions.

        Raises: BadRequest, PermissionDenied: not grantable; TopicNotExist.
        """
        topic = self._context.topic(caller, Permission.CHANGE_PERMISSION, resource)
        mask = int(permission)
        await self._context.topics.change(topic, lambda now: granted(now, grantee, mask))

    async def revoke_permission(self, caller: Principal, resource: str, grantee: Grantee) -> None:
        """Revoke all permissions; a grantee without a grant is no error."""
        topic = self._context.topic(caller, Permission.CHANGE_PERMISSION, resource)
        await self._context.topics.change(topic, lambda now: revoked(now, grantee))

    async def grant_to(
        self, caller: Principal, resource: str, identifier: str, permission: Permission
    ) -> None:
        """Overwrite an identifier's permissions, whatever its grantee type; ``guest`` stands for
        callers without a key.

        Raises: BadRequest, PermissionDenied: not grantable; TopicNotExist.
        """
        topic = self._context.topic(caller, Permission.CHANGE_PERMISSION, resource)
        mask = int(permission)

        def overwrite(now: Topic) -> Topic:
            changed = granted(now, _kinds_of(now, identifier)[0], mask)
            for other in _kinds_of(now, identifier)[1:]:
                changed = revoked(changed, other)
            return changed

        await self._context.topics.change(topic, overwrite)

    async def revoke_from(self, caller: Principal, resource: str, identifier: str) -> None:
        """Revoke all permissions of an identifier; one without a grant is no error."""
        topic = self._context.topic(caller, Permission.CHANGE_PERMISSION, resource)

        def without(now: Topic) -> Topic:
            for grantee in _kinds_of(now, identifier):
                now = revoked(now, grantee)
            return now

        await self._context.topics.change(topic, without)

    def list_permission(self, caller: Principal, resource: str) -> Mapping[str, int]:
        """Identifier to mask, the owner included."""
        return grants_of(self._context.topic(caller, Permission.DESCRIBE_TOPIC, resource))

    def get_permission(self, caller: Principal, resource: str, grantee: Grantee) -> int:
        """Mask of one grantee; 0 if nothing was granted."""
        return grant_of(self._context.topic(caller, Permission.DESCRIBE_TOPIC, resource), grantee)


def _kinds_of(topic: Topic, identifier: str) -> list[Grantee]:
    """The grantees of that name, at least one: a developer if it has no grant yet."""
    if identifier == GUEST.id:
        return [Grantee(GrantType.GUEST, identifier)]
    found = [
        grantee
        for grantee in topic.acl
        if grantee.identifier == identifier and grantee.type != GrantType.GUEST
    ]
    return found or [Grantee(GrantType.DEVELOPER, identifier)]

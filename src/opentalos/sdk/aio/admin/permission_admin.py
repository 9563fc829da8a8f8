"""Administration of the permissions on a topic."""

from opentalos.sdk.aio.admin import structs
from opentalos.sdk.aio.admin.topic_admin import find
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.core.values import (
    Grantee,
    Permission,
    TopicRef,
)
from opentalos.wire._generated import topic
from opentalos.wire._generated.topic import TOPIC_SERVICE


class PermissionAdmin:
    """Permissions on a topic. A grantee given as a string is a developer."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def grant(
        self, name: str | TopicRef, grantee: str | Grantee, permission: Permission
    ) -> None:
        """Set the permissions of a grantee, replacing its previous ones."""
        ref = await find(self._client, name)
        request = topic.SetPermissionRequest(
            topicResourceName=structs.resource(ref),
            grant=structs.grantee(grantee),
            permission=int(permission),
        )
        await self._client.call(TOPIC_SERVICE, "setPermission", request)

    async def revoke(self, name: str | TopicRef, grantee: str | Grantee) -> None:
        """Revoke all permissions of a grantee."""
        ref = await find(self._client, name)
        request = topic.RevokePermissionRequest(
            topicResourceName=structs.resource(ref), grant=structs.grantee(grantee)
        )
        await self._client.call(TOPIC_SERVICE, "revokePermission", request)

    async def list(self, name: str | TopicRef) -> dict[str, Permission]:
        """List the permissions by grantee."""
        ref = await find(self._client, name)
        request = topic.ListPermissionRequest(topicResourceName=structs.resource(ref))
        found = await self._client.call(TOPIC_SERVICE, "listPermission", request)
        return structs.permissions_of(found.permissions)

    async def get(self, name: str | TopicRef, grantee: str | Grantee) -> Permission:
        """The permissions of one grantee."""
        ref = await find(self._client, name)
        request = topic.GetPermissionRequest(
            topicResourceName=structs.resource(ref), grant=structs.grantee(grantee)
        )
        found = await self._client.call(TOPIC_SERVICE, "getPermission", request)
        return Permission(found.permission)

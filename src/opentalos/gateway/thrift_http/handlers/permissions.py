"""TopicService: who may do what with a topic."""

from typing import Final

from opentalos.broker.broker import Broker
from opentalos.gateway.thrift_http.handlers import values
from opentalos.gateway.thrift_http.handlers.context import CallContext, Handler
from opentalos.model.errors import BadRequest
from opentalos.model.identity import Principal
from opentalos.wire._generated import topic


async def set_permission(
    broker: Broker, caller: Principal, request: topic.SetPermissionRequest, context: CallContext
) -> None:
    """Overwrite what a grantee may do.

    talos-python3 revokes with this message under ``type=revokePermission``, without a
    permission. Source: docs/protocol/clients.md#python, 6.
    """
    resource = values.resource_of(request.topicResourceName)
    grantee = values.grantee_of(request.grant)
    if request.permission is not None:
        permission = values.permission_of(request.permission)
        await broker.permissions.set_permission(caller, resource, grantee, permission)
    elif context.rpc_hint == "revokePermission":
        await broker.permissions.revoke_permission(caller, resource, grantee)
    else:
        raise BadRequest("SetPermissionRequest lacks the required field permission (3)")


async def revoke_permission(
    broker: Broker, caller: Principal, request: topic.RevokePermissionRequest, _: CallContext
) -> None:
    """Take everything back from a grantee."""
    resource = values.resource_of(request.topicResourceName)
    grantee = values.grantee_of(request.grant)
    await broker.permissions.revoke_permission(caller, resource, grantee)


async def list_permission(
    broker: Broker, caller: Principal, request: topic.ListPermissionRequest, _: CallContext
) -> topic.ListPermissionResponse:
    """Mask by identifier."""
    resource = values.resource_of(request.topicResourceName)
    found = broker.permissions.list_permission(caller, resource)
    return topic.ListPermissionResponse(permissions=dict(found))


async def get_permission(
    broker: Broker, caller: Principal, request: topic.GetPermissionRequest, _: CallContext
) -> topic.GetPermissionResponse:
    """Mask of one grantee."""
    resource = values.resource_of(request.topicResourceName)
    grantee = values.grantee_of(request.grant)
    mask = broker.permissions.get_permission(caller, resource, grantee)
    return topic.GetPermissionResponse(permission=mask)


HANDLERS: Final[dict[str, Handler]] = {
    "setPermission": set_permission,
    "revokePermission": revoke_permission,
    "listPermission": list_permission,
    "getPermission": get_permission,
}

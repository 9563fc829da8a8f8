"""Requests about access control lists, and what they answer."""

from typing import Any

from tests.unit.gateway.kafka.handlers.admin.support import Client

from opentalos.gateway.kafka.handlers.admin.acl_terms import (
    ANY,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from opentalos.wire.kafka._generated.create_acls_request import AclCreation, CreateAclsRequest
from opentalos.wire.kafka._generated.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from opentalos.wire.kafka._generated.describe_acls_request import DescribeAclsRequest
from opentalos.wire.kafka.apis import ApiKey
from opentalos.wire.kafka.errors import ErrorCode

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
EVERYTHING: dict[str, Any] = {
    "resource_type_filter": ANY,
    "resource_name_filter": None,
    "pattern_type_filter": ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": ANY,
    "permission_type": ANY,
}


def entry(principal: str, operation: int, topic: str = "t", **other: Any) -> AclCreation:
    fields = {
        "resource_type": int(ResourceType.TOPIC),
        "resource_pattern_type": int(PatternType.LITERAL),
        "host": "*",
        "permission_type": int(PermissionType.ALLOW),
        **other,
    }
    return AclCreation(resource_name=topic, principal=principal, operation=int(operation), **fields)


async def create(client: Client, *entries: AclCreation, version: int = -1) -> list[Any]:
    request = CreateAclsRequest(creations=list(entries))
    return list((await client.ask(ApiKey.CREATE_ACLS, request, version)).results)


async def describe(client: Client, version: int = -1, **fields: Any) -> Any:
    request = DescribeAclsRequest(**{**EVERYTHING, **fields})
    response = await client.ask(ApiKey.DESCRIBE_ACLS, request, version)
    if response.error_code:
        return ErrorCode(response.error_code).name
    return [
        (resource.resource_name, acl.principal, AclOperation(acl.operation).name)
        for resource in response.resources
        for acl in resource.acls
    ]


async def delete(client: Client, *filters: dict[str, Any], version: int = -1) -> list[Any]:
    made = [DeleteAclsFilter(**{**EVERYTHING, **fields}) for fields in filters]
    request = DeleteAclsRequest(filters=made)
    return list((await client.ask(ApiKey.DELETE_ACLS, request, version)).filter_results)

"""Generated from idl/kafka/DescribeAclsResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT16,
    INT32,
    INT8,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class AclDescription(KafkaStruct, kw_only=True):
    """DescribeAclsResponse.json: AclDescription."""

    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


class DescribeAclsResource(KafkaStruct, kw_only=True):
    """DescribeAclsResponse.json: DescribeAclsResource."""

    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    acls: list[AclDescription] = []


class DescribeAclsResponse(KafkaStruct, kw_only=True):
    """DescribeAclsResponse.json: DescribeAclsResponse."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    resources: list[DescribeAclsResource] = []


AclDescription.SPEC = struct_spec(
    AclDescription,
    (2, MAX),
    Field("principal", STRING, (0, MAX)),
    Field("host", STRING, (0, MAX)),
    Field("operation", INT8, (0, MAX)),
    Field("permission_type", INT8, (0, MAX)),
)

DescribeAclsResource.SPEC = struct_spec(
    DescribeAclsResource,
    (2, MAX),
    Field("resource_type", INT8, (0, MAX)),
    Field("resource_name", STRING, (0, MAX)),
    Field("pattern_type", INT8, (1, MAX)),
    Field("acls", array_of(struct_of(AclDescription)), (0, MAX)),
)

DescribeAclsResponse.SPEC = struct_spec(
    DescribeAclsResponse,
    (2, MAX),
    Field("throttle_time_ms", INT32, (0, MAX)),
    Field("error_code", INT16, (0, MAX)),
    Field("error_message", STRING, (0, MAX), nullable=(0, MAX)),
    Field("resources", array_of(struct_of(DescribeAclsResource)), (0, MAX)),
)

API_KEY = 29
VERSIONS = (1, 3)

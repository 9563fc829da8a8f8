"""Generated from idl/kafka/DescribeAclsRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT8,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    struct_spec,
)


class DescribeAclsRequest(KafkaStruct, kw_only=True):
    """DescribeAclsRequest.json: DescribeAclsRequest."""

    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0


DescribeAclsRequest.SPEC = struct_spec(
    DescribeAclsRequest,
    (2, MAX),
    Field("resource_type_filter", INT8, (0, MAX)),
    Field("resource_name_filter", STRING, (0, MAX), nullable=(0, MAX)),
    Field("pattern_type_filter", INT8, (1, MAX)),
    Field("principal_filter", STRING, (0, MAX), nullable=(0, MAX)),
    Field("host_filter", STRING, (0, MAX), nullable=(0, MAX)),
    Field("operation", INT8, (0, MAX)),
    Field("permission_type", INT8, (0, MAX)),
)

API_KEY = 29
VERSIONS = (1, 3)

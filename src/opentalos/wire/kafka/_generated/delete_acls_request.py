"""Generated from idl/kafka/DeleteAclsRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT8,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class DeleteAclsFilter(KafkaStruct, kw_only=True):
    """DeleteAclsRequest.json: DeleteAclsFilter."""

    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0


class DeleteAclsRequest(KafkaStruct, kw_only=True):
    """DeleteAclsRequest.json: DeleteAclsRequest."""

    filters: list[DeleteAclsFilter] = []


DeleteAclsFilter.SPEC = struct_spec(
    DeleteAclsFilter,
    (2, MAX),
    Field("resource_type_filter", INT8, (0, MAX)),
    Field("resource_name_filter", STRING, (0, MAX), nullable=(0, MAX)),
    Field("pattern_type_filter", INT8, (1, MAX)),
    Field("principal_filter", STRING, (0, MAX), nullable=(0, MAX)),
    Field("host_filter", STRING, (0, MAX), nullable=(0, MAX)),
    Field("operation", INT8, (0, MAX)),
    Field("permission_type", INT8, (0, MAX)),
)

DeleteAclsRequest.SPEC = struct_spec(
    DeleteAclsRequest,
    (2, MAX),
    Field("filters", array_of(struct_of(DeleteAclsFilter)), (0, MAX)),
)

API_KEY = 31
VERSIONS = (1, 3)

"""Generated from idl/kafka/DeleteAclsResponse.json by scripts/generate_kafka.py."""

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


class DeleteAclsMatchingAcl(KafkaStruct, kw_only=True):
    """DeleteAclsResponse.json: DeleteAclsMatchingAcl."""

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


class DeleteAclsFilterResult(KafkaStruct, kw_only=True):
    """DeleteAclsResponse.json: DeleteAclsFilterResult."""

    error_code: int = 0
    error_message: str | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = []


class DeleteAclsResponse(KafkaStruct, kw_only=True):
    """DeleteAclsResponse.json: DeleteAclsResponse."""

    throttle_time_ms: int = 0
    filter_results: list[DeleteAclsFilterResult] = []


DeleteAclsMatchingAcl.SPEC = struct_spec(
    DeleteAclsMatchingAcl,
    (2, MAX),
    Field("error_code", INT16, (0, MAX)),
    Field("error_message", STRING, (0, MAX), nullable=(0, MAX)),
    Field("resource_type", INT8, (0, MAX)),
    Field("resource_name", STRING, (0, MAX)),
    Field("pattern_type", INT8, (1, MAX)),
    Field("principal", STRING, (0, MAX)),
    Field("host", STRING, (0, MAX)),
    Field("operation", INT8, (0, MAX)),
    Field("permission_type", INT8, (0, MAX)),
)

DeleteAclsFilterResult.SPEC = struct_spec(
    DeleteAclsFilterResult,
    (2, MAX),
    Field("error_code", INT16, (0, MAX)),
    Field("error_message", STRING, (0, MAX), nullable=(0, MAX)),
    Field("matching_acls", array_of(struct_of(DeleteAclsMatchingAcl)), (0, MAX)),
)

DeleteAclsResponse.SPEC = struct_spec(
    DeleteAclsResponse,
    (2, MAX),
    Field("throttle_time_ms", INT32, (0, MAX)),
    Field("filter_results", array_of(struct_of(DeleteAclsFilterResult)), (0, MAX)),
)

API_KEY = 31
VERSIONS = (1, 3)

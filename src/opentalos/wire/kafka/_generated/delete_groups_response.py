"""Generated from idl/kafka/DeleteGroupsResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT16,
    INT32,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class DeletableGroupResult(KafkaStruct, kw_only=True):
    """DeleteGroupsResponse.json: DeletableGroupResult."""

    group_id: str = ""
    error_code: int = 0


class DeleteGroupsResponse(KafkaStruct, kw_only=True):
    """DeleteGroupsResponse.json: DeleteGroupsResponse."""

    throttle_time_ms: int = 0
    results: list[DeletableGroupResult] = []


DeletableGroupResult.SPEC = struct_spec(
    DeletableGroupResult,
    (2, MAX),
    Field("group_id", STRING, (0, MAX)),
    Field("error_code", INT16, (0, MAX)),
)

DeleteGroupsResponse.SPEC = struct_spec(
    DeleteGroupsResponse,
    (2, MAX),
    Field("throttle_time_ms", INT32, (0, MAX)),
    Field("results", array_of(struct_of(DeletableGroupResult)), (0, MAX)),
)

API_KEY = 42
VERSIONS = (0, 2)

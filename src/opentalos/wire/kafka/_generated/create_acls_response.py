"""Generated from idl/kafka/CreateAclsResponse.json by scripts/generate_kafka.py."""

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


class AclCreationResult(KafkaStruct, kw_only=True):
    """CreateAclsResponse.json: AclCreationResult."""

    error_code: int = 0
    error_message: str | None = ""


class CreateAclsResponse(KafkaStruct, kw_only=True):
    """CreateAclsResponse.json: CreateAclsResponse."""

    throttle_time_ms: int = 0
    results: list[AclCreationResult] = []


AclCreationResult.SPEC = struct_spec(
    AclCreationResult,
    (2, MAX),
    Field("error_code", INT16, (0, MAX)),
    Field("error_message", STRING, (0, MAX), nullable=(0, MAX)),
)

CreateAclsResponse.SPEC = struct_spec(
    CreateAclsResponse,
    (2, MAX),
    Field("throttle_time_ms", INT32, (0, MAX)),
    Field("results", array_of(struct_of(AclCreationResult)), (0, MAX)),
)

API_KEY = 30
VERSIONS = (1, 3)

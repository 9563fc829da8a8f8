"""Generated from idl/kafka/AlterConfigsResponse.json by scripts/generate_kafka.py."""

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


class AlterConfigsResourceResponse(KafkaStruct, kw_only=True):
    """AlterConfigsResponse.json: AlterConfigsResourceResponse."""

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""


class AlterConfigsResponse(KafkaStruct, kw_only=True):
    """AlterConfigsResponse.json: AlterConfigsResponse."""

    throttle_time_ms: int = 0
    responses: list[AlterConfigsResourceResponse] = []


AlterConfigsResourceResponse.SPEC = struct_spec(
    AlterConfigsResourceResponse,
    (2, MAX),
    Field("error_code", INT16, (0, MAX)),
    Field("error_message", STRING, (0, MAX), nullable=(0, MAX)),
    Field("resource_type", INT8, (0, MAX)),
    Field("resource_name", STRING, (0, MAX)),
)

AlterConfigsResponse.SPEC = struct_spec(
    AlterConfigsResponse,
    (2, MAX),
    Field("throttle_time_ms", INT32, (0, MAX)),
    Field("responses", array_of(struct_of(AlterConfigsResourceResponse)), (0, MAX)),
)

API_KEY = 33
VERSIONS = (0, 2)

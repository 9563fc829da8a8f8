"""Generated from idl/kafka/CreatePartitionsResponse.json by scripts/generate_kafka.py."""

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


class CreatePartitionsTopicResult(KafkaStruct, kw_only=True):
    """CreatePartitionsResponse.json: CreatePartitionsTopicResult."""

    name: str = ""
    error_code: int = 0
    error_message: str | None = None


class CreatePartitionsResponse(KafkaStruct, kw_only=True):
    """CreatePartitionsResponse.json: CreatePartitionsResponse."""

    throttle_time_ms: int = 0
    results: list[CreatePartitionsTopicResult] = []


CreatePartitionsTopicResult.SPEC = struct_spec(
    CreatePartitionsTopicResult,
    (2, MAX),
    Field("name", STRING, (0, MAX)),
    Field("error_code", INT16, (0, MAX)),
    Field("error_message", STRING, (0, MAX), nullable=(0, MAX)),
)

CreatePartitionsResponse.SPEC = struct_spec(
    CreatePartitionsResponse,
    (2, MAX),
    Field("throttle_time_ms", INT32, (0, MAX)),
    Field("results", array_of(struct_of(CreatePartitionsTopicResult)), (0, MAX)),
)

API_KEY = 37
VERSIONS = (0, 3)

"""Generated from idl/kafka/DeleteTopicsResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT16,
    INT32,
    MAX,
    STRING,
    UUID,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class DeletableTopicResult(KafkaStruct, kw_only=True):
    """DeleteTopicsResponse.json: DeletableTopicResult."""

    name: str | None = ""
    topic_id: bytes = bytes(16)
    error_code: int = 0
    error_message: str | None = None


class DeleteTopicsResponse(KafkaStruct, kw_only=True):
    """DeleteTopicsResponse.json: DeleteTopicsResponse."""

    throttle_time_ms: int = 0
    responses: list[DeletableTopicResult] = []


DeletableTopicResult.SPEC = struct_spec(
    DeletableTopicResult,
    (4, MAX),
    Field("name", STRING, (0, MAX), nullable=(6, MAX)),
    Field("topic_id", UUID, (6, MAX)),
    Field("error_code", INT16, (0, MAX)),
    Field("error_message", STRING, (5, MAX), nullable=(5, MAX)),
)

DeleteTopicsResponse.SPEC = struct_spec(
    DeleteTopicsResponse,
    (4, MAX),
    Field("throttle_time_ms", INT32, (1, MAX)),
    Field("responses", array_of(struct_of(DeletableTopicResult)), (0, MAX)),
)

API_KEY = 20
VERSIONS = (1, 6)

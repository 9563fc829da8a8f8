"""Generated from idl/kafka/DeleteTopicsRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
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


class DeleteTopicState(KafkaStruct, kw_only=True):
    """DeleteTopicsRequest.json: DeleteTopicState."""

    name: str | None = None
    topic_id: bytes = bytes(16)


class DeleteTopicsRequest(KafkaStruct, kw_only=True):
    """DeleteTopicsRequest.json: DeleteTopicsRequest."""

    topics: list[DeleteTopicState] = []
    topic_names: list[str] = []
    timeout_ms: int = 0


DeleteTopicState.SPEC = struct_spec(
    DeleteTopicState,
    (4, MAX),
    Field("name", STRING, (6, MAX), nullable=(6, MAX)),
    Field("topic_id", UUID, (6, MAX)),
)

DeleteTopicsRequest.SPEC = struct_spec(
    DeleteTopicsRequest,
    (4, MAX),
    Field("topics", array_of(struct_of(DeleteTopicState)), (6, MAX)),
    Field("topic_names", array_of(STRING), (0, 5)),
    Field("timeout_ms", INT32, (0, MAX)),
)

API_KEY = 20
VERSIONS = (1, 6)

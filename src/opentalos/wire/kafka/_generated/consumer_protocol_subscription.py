"""Generated from idl/kafka/ConsumerProtocolSubscription.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BYTES,
    INT32,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class TopicPartition(KafkaStruct, kw_only=True):
    """ConsumerProtocolSubscription.json: TopicPartition."""

    topic: str = ""
    partitions: list[int] = []


class ConsumerProtocolSubscription(KafkaStruct, kw_only=True):
    """ConsumerProtocolSubscription.json: ConsumerProtocolSubscription."""

    topics: list[str] = []
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = []
    generation_id: int = -1
    rack_id: str | None = None


TopicPartition.SPEC = struct_spec(
    TopicPartition,
    (0, -1),
    Field("topic", STRING, (1, MAX)),
    Field("partitions", array_of(INT32), (1, MAX)),
)

ConsumerProtocolSubscription.SPEC = struct_spec(
    ConsumerProtocolSubscription,
    (0, -1),
    Field("topics", array_of(STRING), (0, MAX)),
    Field("user_data", BYTES, (0, MAX), nullable=(0, MAX)),
    Field("owned_partitions", array_of(struct_of(TopicPartition)), (1, MAX)),
    Field("generation_id", INT32, (2, MAX)),
    Field("rack_id", STRING, (3, MAX), nullable=(3, MAX)),
)

VERSIONS = (0, 3)

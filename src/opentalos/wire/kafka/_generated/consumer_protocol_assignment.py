"""Generated from idl/kafka/ConsumerProtocolAssignment.json by scripts/generate_kafka.py."""

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
    """ConsumerProtocolAssignment.json: TopicPartition."""

    topic: str = ""
    partitions: list[int] = []


class ConsumerProtocolAssignment(KafkaStruct, kw_only=True):
    """ConsumerProtocolAssignment.json: ConsumerProtocolAssignment."""

    assigned_partitions: list[TopicPartition] = []
    user_data: bytes | None = None


TopicPartition.SPEC = struct_spec(
    TopicPartition,
    (0, -1),
    Field("topic", STRING, (0, MAX)),
    Field("partitions", array_of(INT32), (0, MAX)),
)

ConsumerProtocolAssignment.SPEC = struct_spec(
    ConsumerProtocolAssignment,
    (0, -1),
    Field("assigned_partitions", array_of(struct_of(TopicPartition)), (0, MAX)),
    Field("user_data", BYTES, (0, MAX), nullable=(0, MAX)),
)

VERSIONS = (0, 3)

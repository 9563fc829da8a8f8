"""Generated from idl/kafka/ConsumerGroupHeartbeatResponse.json by scripts/generate_kafka.py."""

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


class TopicPartitions(KafkaStruct, kw_only=True):
    """ConsumerGroupHeartbeatResponse.json: TopicPartitions."""

    topic_id: bytes = bytes(16)
    partitions: list[int] = []


class Assignment(KafkaStruct, kw_only=True):
    """ConsumerGroupHeartbeatResponse.json: Assignment."""

    topic_partitions: list[TopicPartitions] = []


class ConsumerGroupHeartbeatResponse(KafkaStruct, kw_only=True):
    """ConsumerGroupHeartbeatResponse.json: ConsumerGroupHeartbeatResponse."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


TopicPartitions.SPEC = struct_spec(
    TopicPartitions,
    (0, MAX),
    Field("topic_id", UUID, (0, MAX)),
    Field("partitions", array_of(INT32), (0, MAX)),
)

Assignment.SPEC = struct_spec(
    Assignment,
    (0, MAX),
    Field("topic_partitions", array_of(struct_of(TopicPartitions)), (0, MAX)),
)

ConsumerGroupHeartbeatResponse.SPEC = struct_spec(
    ConsumerGroupHeartbeatResponse,
    (0, MAX),
    Field("throttle_time_ms", INT32, (0, MAX)),
    Field("error_code", INT16, (0, MAX)),
    Field("error_message", STRING, (0, MAX), nullable=(0, MAX)),
    Field("member_id", STRING, (0, MAX), nullable=(0, MAX)),
    Field("member_epoch", INT32, (0, MAX)),
    Field("heartbeat_interval_ms", INT32, (0, MAX)),
    Field("assignment", struct_of(Assignment), (0, MAX), nullable=(0, MAX)),
)

API_KEY = 68
VERSIONS = (0, 1)

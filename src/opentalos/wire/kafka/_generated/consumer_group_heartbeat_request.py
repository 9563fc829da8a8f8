"""Generated from idl/kafka/ConsumerGroupHeartbeatRequest.json by scripts/generate_kafka.py."""

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


class TopicPartitions(KafkaStruct, kw_only=True):
    """ConsumerGroupHeartbeatRequest.json: TopicPartitions."""

    topic_id: bytes = bytes(16)
    partitions: list[int] = []


class ConsumerGroupHeartbeatRequest(KafkaStruct, kw_only=True):
    """ConsumerGroupHeartbeatRequest.json: ConsumerGroupHeartbeatRequest."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = None


TopicPartitions.SPEC = struct_spec(
    TopicPartitions,
    (0, MAX),
    Field("topic_id", UUID, (0, MAX)),
    Field("partitions", array_of(INT32), (0, MAX)),
)

ConsumerGroupHeartbeatRequest.SPEC = struct_spec(
    ConsumerGroupHeartbeatRequest,
    (0, MAX),
    Field("group_id", STRING, (0, MAX)),
    Field("member_id", STRING, (0, MAX)),
    Field("member_epoch", INT32, (0, MAX)),
    Field("instance_id", STRING, (0, MAX), nullable=(0, MAX)),
    Field("rack_id", STRING, (0, MAX), nullable=(0, MAX)),
    Field("rebalance_timeout_ms", INT32, (0, MAX)),
    Field("subscribed_topic_names", array_of(STRING), (0, MAX), nullable=(0, MAX)),
    Field("subscribed_topic_regex", STRING, (1, MAX), nullable=(1, MAX)),
    Field("server_assignor", STRING, (0, MAX), nullable=(0, MAX)),
    Field("topic_partitions", array_of(struct_of(TopicPartitions)), (0, MAX), nullable=(0, MAX)),
)

API_KEY = 68
VERSIONS = (0, 1)

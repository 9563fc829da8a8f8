"""Generated from idl/kafka/DescribeTopicPartitionsResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BOOL,
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


class DescribeTopicPartitionsResponsePartition(KafkaStruct, kw_only=True):
    """DescribeTopicPartitionsResponse.json: DescribeTopicPartitionsResponsePartition."""

    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = []
    isr_nodes: list[int] = []
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
    offline_replicas: list[int] = []


class DescribeTopicPartitionsResponseTopic(KafkaStruct, kw_only=True):
    """DescribeTopicPartitionsResponse.json: DescribeTopicPartitionsResponseTopic."""

    error_code: int = 0
    name: str | None = ""
    topic_id: bytes = bytes(16)
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = []
    topic_authorized_operations: int = -2147483648


class Cursor(KafkaStruct, kw_only=True):
    """DescribeTopicPartitionsResponse.json: Cursor."""

    topic_name: str = ""
    partition_index: int = 0


class DescribeTopicPartitionsResponse(KafkaStruct, kw_only=True):
    """DescribeTopicPartitionsResponse.json: DescribeTopicPartitionsResponse."""

    throttle_time_ms: int = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: Cursor | None = None


DescribeTopicPartitionsResponsePartition.SPEC = struct_spec(
    DescribeTopicPartitionsResponsePartition,
    (0, MAX),
    Field("error_code", INT16, (0, MAX)),
    Field("partition_index", INT32, (0, MAX)),
    Field("leader_id", INT32, (0, MAX)),
    Field("leader_epoch", INT32, (0, MAX)),
    Field("replica_nodes", array_of(INT32), (0, MAX)),
    Field("isr_nodes", array_of(INT32), (0, MAX)),
    Field("eligible_leader_replicas", array_of(INT32), (0, MAX), nullable=(0, MAX)),
    Field("last_known_elr", array_of(INT32), (0, MAX), nullable=(0, MAX)),
    Field("offline_replicas", array_of(INT32), (0, MAX)),
)

DescribeTopicPartitionsResponseTopic.SPEC = struct_spec(
    DescribeTopicPartitionsResponseTopic,
    (0, MAX),
    Field("error_code", INT16, (0, MAX)),
    Field("name", STRING, (0, MAX), nullable=(0, MAX)),
    Field("topic_id", UUID, (0, MAX)),
    Field("is_internal", BOOL, (0, MAX)),
    Field("partitions", array_of(struct_of(DescribeTopicPartitionsResponsePartition)), (0, MAX)),
    Field("topic_authorized_operations", INT32, (0, MAX)),
)

Cursor.SPEC = struct_spec(
    Cursor,
    (0, MAX),
    Field("topic_name", STRING, (0, MAX)),
    Field("partition_index", INT32, (0, MAX)),
)

DescribeTopicPartitionsResponse.SPEC = struct_spec(
    DescribeTopicPartitionsResponse,
    (0, MAX),
    Field("throttle_time_ms", INT32, (0, MAX)),
    Field("topics", array_of(struct_of(DescribeTopicPartitionsResponseTopic)), (0, MAX)),
    Field("next_cursor", struct_of(Cursor), (0, MAX), nullable=(0, MAX)),
)

API_KEY = 75
VERSIONS = (0, 0)

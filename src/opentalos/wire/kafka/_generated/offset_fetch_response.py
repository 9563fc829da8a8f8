"""Generated from idl/kafka/OffsetFetchResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT16,
    INT32,
    INT64,
    MAX,
    STRING,
    UUID,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class OffsetFetchResponsePartition(KafkaStruct, kw_only=True):
    """OffsetFetchResponse.json: OffsetFetchResponsePartition."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0


class OffsetFetchResponseTopic(KafkaStruct, kw_only=True):
    """OffsetFetchResponse.json: OffsetFetchResponseTopic."""

    name: str = ""
    partitions: list[OffsetFetchResponsePartition] = []


class OffsetFetchResponsePartitions(KafkaStruct, kw_only=True):
    """OffsetFetchResponse.json: OffsetFetchResponsePartitions."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0


class OffsetFetchResponseTopics(KafkaStruct, kw_only=True):
    """OffsetFetchResponse.json: OffsetFetchResponseTopics."""

    name: str = ""
    topic_id: bytes = bytes(16)
    partitions: list[OffsetFetchResponsePartitions] = []


class OffsetFetchResponseGroup(KafkaStruct, kw_only=True):
    """OffsetFetchResponse.json: OffsetFetchResponseGroup."""

    group_id: str = ""
    topics: list[OffsetFetchResponseTopics] = []
    error_code: int = 0


class OffsetFetchResponse(KafkaStruct, kw_only=True):
    """OffsetFetchResponse.json: OffsetFetchResponse."""

    throttle_time_ms: int = 0
    topics: list[OffsetFetchResponseTopic] = []
    error_code: int = 0
    groups: list[OffsetFetchResponseGroup] = []


OffsetFetchResponsePartition.SPEC = struct_spec(
    OffsetFetchResponsePartition,
    (6, MAX),
    Field("partition_index", INT32, (0, 7)),
    Field("committed_offset", INT64, (0, 7)),
    Field("committed_leader_epoch", INT32, (5, 7)),
    Field("metadata", STRING, (0, 7), nullable=(0, 7)),
    Field("error_code", INT16, (0, 7)),
)

OffsetFetchResponseTopic.SPEC = struct_spec(
    OffsetFetchResponseTopic,
    (6, MAX),
    Field("name", STRING, (0, 7)),
    Field("partitions", array_of(struct_of(OffsetFetchResponsePartition)), (0, 7)),
)

OffsetFetchResponsePartitions.SPEC = struct_spec(
    OffsetFetchResponsePartitions,
    (6, MAX),
    Field("partition_index", INT32, (8, MAX)),
    Field("committed_offset", INT64, (8, MAX)),
    Field("committed_leader_epoch", INT32, (8, MAX)),
    Field("metadata", STRING, (8, MAX), nullable=(8, MAX)),
    Field("error_code", INT16, (8, MAX)),
)

OffsetFetchResponseTopics.SPEC = struct_spec(
    OffsetFetchResponseTopics,
    (6, MAX),
    Field("name", STRING, (8, 9)),
    Field("topic_id", UUID, (10, MAX)),
    Field("partitions", array_of(struct_of(OffsetFetchResponsePartitions)), (8, MAX)),
)

OffsetFetchResponseGroup.SPEC = struct_spec(
    OffsetFetchResponseGroup,
    (6, MAX),
    Field("group_id", STRING, (8, MAX)),
    Field("topics", array_of(struct_of(OffsetFetchResponseTopics)), (8, MAX)),
    Field("error_code", INT16, (8, MAX)),
)

OffsetFetchResponse.SPEC = struct_spec(
    OffsetFetchResponse,
    (6, MAX),
    Field("throttle_time_ms", INT32, (3, MAX)),
    Field("topics", array_of(struct_of(OffsetFetchResponseTopic)), (0, 7)),
    Field("error_code", INT16, (2, 7)),
    Field("groups", array_of(struct_of(OffsetFetchResponseGroup)), (8, MAX)),
)

API_KEY = 9
VERSIONS = (1, 10)

"""Generated from idl/kafka/OffsetCommitResponse.json by scripts/generate_kafka.py."""

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


class OffsetCommitResponsePartition(KafkaStruct, kw_only=True):
    """OffsetCommitResponse.json: OffsetCommitResponsePartition."""

    partition_index: int = 0
    error_code: int = 0


class OffsetCommitResponseTopic(KafkaStruct, kw_only=True):
    """OffsetCommitResponse.json: OffsetCommitResponseTopic."""

    name: str = ""
    topic_id: bytes = bytes(16)
    partitions: list[OffsetCommitResponsePartition] = []


class OffsetCommitResponse(KafkaStruct, kw_only=True):
    """OffsetCommitResponse.json: OffsetCommitResponse."""

    throttle_time_ms: int = 0
    topics: list[OffsetCommitResponseTopic] = []


OffsetCommitResponsePartition.SPEC = struct_spec(
    OffsetCommitResponsePartition,
    (8, MAX),
    Field("partition_index", INT32, (0, MAX)),
    Field("error_code", INT16, (0, MAX)),
)

OffsetCommitResponseTopic.SPEC = struct_spec(
    OffsetCommitResponseTopic,
    (8, MAX),
    Field("name", STRING, (0, 9)),
    Field("topic_id", UUID, (10, MAX)),
    Field("partitions", array_of(struct_of(OffsetCommitResponsePartition)), (0, MAX)),
)

OffsetCommitResponse.SPEC = struct_spec(
    OffsetCommitResponse,
    (8, MAX),
    Field("throttle_time_ms", INT32, (3, MAX)),
    Field("topics", array_of(struct_of(OffsetCommitResponseTopic)), (0, MAX)),
)

API_KEY = 8
VERSIONS = (2, 10)

"""Generated from idl/kafka/OffsetCommitRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
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


class OffsetCommitRequestPartition(KafkaStruct, kw_only=True):
    """OffsetCommitRequest.json: OffsetCommitRequestPartition."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""


class OffsetCommitRequestTopic(KafkaStruct, kw_only=True):
    """OffsetCommitRequest.json: OffsetCommitRequestTopic."""

    name: str = ""
    topic_id: bytes = bytes(16)
    partitions: list[OffsetCommitRequestPartition] = []


class OffsetCommitRequest(KafkaStruct, kw_only=True):
    """OffsetCommitRequest.json: OffsetCommitRequest."""

    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: list[OffsetCommitRequestTopic] = []


OffsetCommitRequestPartition.SPEC = struct_spec(
    OffsetCommitRequestPartition,
    (8, MAX),
    Field("partition_index", INT32, (0, MAX)),
    Field("committed_offset", INT64, (0, MAX)),
    Field("committed_leader_epoch", INT32, (6, MAX)),
    Field("committed_metadata", STRING, (0, MAX), nullable=(0, MAX)),
)

OffsetCommitRequestTopic.SPEC = struct_spec(
    OffsetCommitRequestTopic,
    (8, MAX),
    Field("name", STRING, (0, 9)),
    Field("topic_id", UUID, (10, MAX)),
    Field("partitions", array_of(struct_of(OffsetCommitRequestPartition)), (0, MAX)),
)

OffsetCommitRequest.SPEC = struct_spec(
    OffsetCommitRequest,
    (8, MAX),
    Field("group_id", STRING, (0, MAX)),
    Field("generation_id_or_member_epoch", INT32, (1, MAX)),
    Field("member_id", STRING, (1, MAX)),
    Field("group_instance_id", STRING, (7, MAX), nullable=(7, MAX)),
    Field("retention_time_ms", INT64, (2, 4)),
    Field("topics", array_of(struct_of(OffsetCommitRequestTopic)), (0, MAX)),
)

API_KEY = 8
VERSIONS = (2, 10)

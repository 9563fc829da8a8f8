"""Generated from idl/kafka/OffsetForLeaderEpochRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT32,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class OffsetForLeaderPartition(KafkaStruct, kw_only=True):
    """OffsetForLeaderEpochRequest.json: OffsetForLeaderPartition."""

    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0


class OffsetForLeaderTopic(KafkaStruct, kw_only=True):
    """OffsetForLeaderEpochRequest.json: OffsetForLeaderTopic."""

    topic: str = ""
    partitions: list[OffsetForLeaderPartition] = []


class OffsetForLeaderEpochRequest(KafkaStruct, kw_only=True):
    """OffsetForLeaderEpochRequest.json: OffsetForLeaderEpochRequest."""

    replica_id: int = -2
    topics: list[OffsetForLeaderTopic] = []


OffsetForLeaderPartition.SPEC = struct_spec(
    OffsetForLeaderPartition,
    (4, MAX),
    Field("partition", INT32, (0, MAX)),
    Field("current_leader_epoch", INT32, (2, MAX)),
    Field("leader_epoch", INT32, (0, MAX)),
)

OffsetForLeaderTopic.SPEC = struct_spec(
    OffsetForLeaderTopic,
    (4, MAX),
    Field("topic", STRING, (0, MAX)),
    Field("partitions", array_of(struct_of(OffsetForLeaderPartition)), (0, MAX)),
)

OffsetForLeaderEpochRequest.SPEC = struct_spec(
    OffsetForLeaderEpochRequest,
    (4, MAX),
    Field("replica_id", INT32, (3, MAX)),
    Field("topics", array_of(struct_of(OffsetForLeaderTopic)), (0, MAX)),
)

API_KEY = 23
VERSIONS = (2, 4)

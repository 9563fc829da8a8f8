"""Generated from idl/kafka/OffsetForLeaderEpochResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT16,
    INT32,
    INT64,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class EpochEndOffset(KafkaStruct, kw_only=True):
    """OffsetForLeaderEpochResponse.json: EpochEndOffset."""

    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1


class OffsetForLeaderTopicResult(KafkaStruct, kw_only=True):
    """OffsetForLeaderEpochResponse.json: OffsetForLeaderTopicResult."""

    topic: str = ""
    partitions: list[EpochEndOffset] = []


class OffsetForLeaderEpochResponse(KafkaStruct, kw_only=True):
    """OffsetForLeaderEpochResponse.json: OffsetForLeaderEpochResponse."""

    throttle_time_ms: int = 0
    topics: list[OffsetForLeaderTopicResult] = []


EpochEndOffset.SPEC = struct_spec(
    EpochEndOffset,
    (4, MAX),
    Field("error_code", INT16, (0, MAX)),
    Field("partition", INT32, (0, MAX)),
    Field("leader_epoch", INT32, (1, MAX)),
    Field("end_offset", INT64, (0, MAX)),
)

OffsetForLeaderTopicResult.SPEC = struct_spec(
    OffsetForLeaderTopicResult,
    (4, MAX),
    Field("topic", STRING, (0, MAX)),
    Field("partitions", array_of(struct_of(EpochEndOffset)), (0, MAX)),
)

OffsetForLeaderEpochResponse.SPEC = struct_spec(
    OffsetForLeaderEpochResponse,
    (4, MAX),
    Field("throttle_time_ms", INT32, (2, MAX)),
    Field("topics", array_of(struct_of(OffsetForLeaderTopicResult)), (0, MAX)),
)

API_KEY = 23
VERSIONS = (2, 4)

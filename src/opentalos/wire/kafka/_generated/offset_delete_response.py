"""Generated from idl/kafka/OffsetDeleteResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT16,
    INT32,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class OffsetDeleteResponsePartition(KafkaStruct, kw_only=True):
    """OffsetDeleteResponse.json: OffsetDeleteResponsePartition."""

    partition_index: int = 0
    error_code: int = 0


class OffsetDeleteResponseTopic(KafkaStruct, kw_only=True):
    """OffsetDeleteResponse.json: OffsetDeleteResponseTopic."""

    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = []


class OffsetDeleteResponse(KafkaStruct, kw_only=True):
    """OffsetDeleteResponse.json: OffsetDeleteResponse."""

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: list[OffsetDeleteResponseTopic] = []


OffsetDeleteResponsePartition.SPEC = struct_spec(
    OffsetDeleteResponsePartition,
    (0, -1),
    Field("partition_index", INT32, (0, MAX)),
    Field("error_code", INT16, (0, MAX)),
)

OffsetDeleteResponseTopic.SPEC = struct_spec(
    OffsetDeleteResponseTopic,
    (0, -1),
    Field("name", STRING, (0, MAX)),
    Field("partitions", array_of(struct_of(OffsetDeleteResponsePartition)), (0, MAX)),
)

OffsetDeleteResponse.SPEC = struct_spec(
    OffsetDeleteResponse,
    (0, -1),
    Field("error_code", INT16, (0, MAX)),
    Field("throttle_time_ms", INT32, (0, MAX)),
    Field("topics", array_of(struct_of(OffsetDeleteResponseTopic)), (0, MAX)),
)

API_KEY = 47
VERSIONS = (0, 0)

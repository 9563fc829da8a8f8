"""Generated from idl/kafka/OffsetDeleteRequest.json by scripts/generate_kafka.py."""

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


class OffsetDeleteRequestPartition(KafkaStruct, kw_only=True):
    """OffsetDeleteRequest.json: OffsetDeleteRequestPartition."""

    partition_index: int = 0


class OffsetDeleteRequestTopic(KafkaStruct, kw_only=True):
    """OffsetDeleteRequest.json: OffsetDeleteRequestTopic."""

    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = []


class OffsetDeleteRequest(KafkaStruct, kw_only=True):
    """OffsetDeleteRequest.json: OffsetDeleteRequest."""

    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = []


OffsetDeleteRequestPartition.SPEC = struct_spec(
    OffsetDeleteRequestPartition,
    (0, -1),
    Field("partition_index", INT32, (0, MAX)),
)

OffsetDeleteRequestTopic.SPEC = struct_spec(
    OffsetDeleteRequestTopic,
    (0, -1),
    Field("name", STRING, (0, MAX)),
    Field("partitions", array_of(struct_of(OffsetDeleteRequestPartition)), (0, MAX)),
)

OffsetDeleteRequest.SPEC = struct_spec(
    OffsetDeleteRequest,
    (0, -1),
    Field("group_id", STRING, (0, MAX)),
    Field("topics", array_of(struct_of(OffsetDeleteRequestTopic)), (0, MAX)),
)

API_KEY = 47
VERSIONS = (0, 0)

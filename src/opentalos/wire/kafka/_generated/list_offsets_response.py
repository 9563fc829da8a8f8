"""Generated from idl/kafka/ListOffsetsResponse.json by scripts/generate_kafka.py."""

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


class ListOffsetsPartitionResponse(KafkaStruct, kw_only=True):
    """ListOffsetsResponse.json: ListOffsetsPartitionResponse."""

    partition_index: int = 0
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


class ListOffsetsTopicResponse(KafkaStruct, kw_only=True):
    """ListOffsetsResponse.json: ListOffsetsTopicResponse."""

    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = []


class ListOffsetsResponse(KafkaStruct, kw_only=True):
    """ListOffsetsResponse.json: ListOffsetsResponse."""

    throttle_time_ms: int = 0
    topics: list[ListOffsetsTopicResponse] = []


ListOffsetsPartitionResponse.SPEC = struct_spec(
    ListOffsetsPartitionResponse,
    (6, MAX),
    Field("partition_index", INT32, (0, MAX)),
    Field("error_code", INT16, (0, MAX)),
    Field("timestamp", INT64, (1, MAX)),
    Field("offset", INT64, (1, MAX)),
    Field("leader_epoch", INT32, (4, MAX)),
)

ListOffsetsTopicResponse.SPEC = struct_spec(
    ListOffsetsTopicResponse,
    (6, MAX),
    Field("name", STRING, (0, MAX)),
    Field("partitions", array_of(struct_of(ListOffsetsPartitionResponse)), (0, MAX)),
)

ListOffsetsResponse.SPEC = struct_spec(
    ListOffsetsResponse,
    (6, MAX),
    Field("throttle_time_ms", INT32, (2, MAX)),
    Field("topics", array_of(struct_of(ListOffsetsTopicResponse)), (0, MAX)),
)

API_KEY = 2
VERSIONS = (1, 11)

"""Generated from idl/kafka/ListOffsetsRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT32,
    INT64,
    INT8,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class ListOffsetsPartition(KafkaStruct, kw_only=True):
    """ListOffsetsRequest.json: ListOffsetsPartition."""

    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0


class ListOffsetsTopic(KafkaStruct, kw_only=True):
    """ListOffsetsRequest.json: ListOffsetsTopic."""

    name: str = ""
    partitions: list[ListOffsetsPartition] = []


class ListOffsetsRequest(KafkaStruct, kw_only=True):
    """ListOffsetsRequest.json: ListOffsetsRequest."""

    replica_id: int = 0
    isolation_level: int = 0
    topics: list[ListOffsetsTopic] = []
    timeout_ms: int = 0


ListOffsetsPartition.SPEC = struct_spec(
    ListOffsetsPartition,
    (6, MAX),
    Field("partition_index", INT32, (0, MAX)),
    Field("current_leader_epoch", INT32, (4, MAX)),
    Field("timestamp", INT64, (0, MAX)),
)

ListOffsetsTopic.SPEC = struct_spec(
    ListOffsetsTopic,
    (6, MAX),
    Field("name", STRING, (0, MAX)),
    Field("partitions", array_of(struct_of(ListOffsetsPartition)), (0, MAX)),
)

ListOffsetsRequest.SPEC = struct_spec(
    ListOffsetsRequest,
    (6, MAX),
    Field("replica_id", INT32, (0, MAX)),
    Field("isolation_level", INT8, (2, MAX)),
    Field("topics", array_of(struct_of(ListOffsetsTopic)), (0, MAX)),
    Field("timeout_ms", INT32, (10, MAX)),
)

API_KEY = 2
VERSIONS = (1, 11)

"""Generated from idl/kafka/DeleteRecordsResponse.json by scripts/generate_kafka.py."""

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


class DeleteRecordsPartitionResult(KafkaStruct, kw_only=True):
    """DeleteRecordsResponse.json: DeleteRecordsPartitionResult."""

    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0


class DeleteRecordsTopicResult(KafkaStruct, kw_only=True):
    """DeleteRecordsResponse.json: DeleteRecordsTopicResult."""

    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = []


class DeleteRecordsResponse(KafkaStruct, kw_only=True):
    """DeleteRecordsResponse.json: DeleteRecordsResponse."""

    throttle_time_ms: int = 0
    topics: list[DeleteRecordsTopicResult] = []


DeleteRecordsPartitionResult.SPEC = struct_spec(
    DeleteRecordsPartitionResult,
    (2, MAX),
    Field("partition_index", INT32, (0, MAX)),
    Field("low_watermark", INT64, (0, MAX)),
    Field("error_code", INT16, (0, MAX)),
)

DeleteRecordsTopicResult.SPEC = struct_spec(
    DeleteRecordsTopicResult,
    (2, MAX),
    Field("name", STRING, (0, MAX)),
    Field("partitions", array_of(struct_of(DeleteRecordsPartitionResult)), (0, MAX)),
)

DeleteRecordsResponse.SPEC = struct_spec(
    DeleteRecordsResponse,
    (2, MAX),
    Field("throttle_time_ms", INT32, (0, MAX)),
    Field("topics", array_of(struct_of(DeleteRecordsTopicResult)), (0, MAX)),
)

API_KEY = 21
VERSIONS = (0, 2)

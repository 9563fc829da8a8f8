"""Generated from idl/kafka/DeleteRecordsRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
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


class DeleteRecordsPartition(KafkaStruct, kw_only=True):
    """DeleteRecordsRequest.json: DeleteRecordsPartition."""

    partition_index: int = 0
    offset: int = 0


class DeleteRecordsTopic(KafkaStruct, kw_only=True):
    """DeleteRecordsRequest.json: DeleteRecordsTopic."""

    name: str = ""
    partitions: list[DeleteRecordsPartition] = []


class DeleteRecordsRequest(KafkaStruct, kw_only=True):
    """DeleteRecordsRequest.json: DeleteRecordsRequest."""

    topics: list[DeleteRecordsTopic] = []
    timeout_ms: int = 0


DeleteRecordsPartition.SPEC = struct_spec(
    DeleteRecordsPartition,
    (2, MAX),
    Field("partition_index", INT32, (0, MAX)),
    Field("offset", INT64, (0, MAX)),
)

DeleteRecordsTopic.SPEC = struct_spec(
    DeleteRecordsTopic,
    (2, MAX),
    Field("name", STRING, (0, MAX)),
    Field("partitions", array_of(struct_of(DeleteRecordsPartition)), (0, MAX)),
)

DeleteRecordsRequest.SPEC = struct_spec(
    DeleteRecordsRequest,
    (2, MAX),
    Field("topics", array_of(struct_of(DeleteRecordsTopic)), (0, MAX)),
    Field("timeout_ms", INT32, (0, MAX)),
)

API_KEY = 21
VERSIONS = (0, 2)

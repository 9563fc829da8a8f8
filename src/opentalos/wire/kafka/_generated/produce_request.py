"""Generated from idl/kafka/ProduceRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT16,
    INT32,
    MAX,
    RECORDS,
    STRING,
    UUID,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class PartitionProduceData(KafkaStruct, kw_only=True):
    """ProduceRequest.json: PartitionProduceData."""

    index: int = 0
    records: bytes | memoryview | None = b""


class TopicProduceData(KafkaStruct, kw_only=True):
    """ProduceRequest.json: TopicProduceData."""

    name: str = ""
    topic_id: bytes = bytes(16)
    partition_data: list[PartitionProduceData] = []


class ProduceRequest(KafkaStruct, kw_only=True):
    """ProduceRequest.json: ProduceRequest."""

    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[TopicProduceData] = []


PartitionProduceData.SPEC = struct_spec(
    PartitionProduceData,
    (9, MAX),
    Field("index", INT32, (0, MAX)),
    Field("records", RECORDS, (0, MAX), nullable=(0, MAX)),
)

TopicProduceData.SPEC = struct_spec(
    TopicProduceData,
    (9, MAX),
    Field("name", STRING, (0, 12)),
    Field("topic_id", UUID, (13, MAX)),
    Field("partition_data", array_of(struct_of(PartitionProduceData)), (0, MAX)),
)

ProduceRequest.SPEC = struct_spec(
    ProduceRequest,
    (9, MAX),
    Field("transactional_id", STRING, (3, MAX), nullable=(3, MAX)),
    Field("acks", INT16, (0, MAX)),
    Field("timeout_ms", INT32, (0, MAX)),
    Field("topic_data", array_of(struct_of(TopicProduceData)), (0, MAX)),
)

API_KEY = 0
VERSIONS = (3, 13)

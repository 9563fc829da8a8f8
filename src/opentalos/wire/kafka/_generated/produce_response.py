"""Generated from idl/kafka/ProduceResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from msgspec import field

from opentalos.wire.kafka.spec import (
    INT16,
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


class BatchIndexAndErrorMessage(KafkaStruct, kw_only=True):
    """ProduceResponse.json: BatchIndexAndErrorMessage."""

    batch_index: int = 0
    batch_index_error_message: str | None = None


class LeaderIdAndEpoch(KafkaStruct, kw_only=True):
    """ProduceResponse.json: LeaderIdAndEpoch."""

    leader_id: int = -1
    leader_epoch: int = -1


class PartitionProduceResponse(KafkaStruct, kw_only=True):
    """ProduceResponse.json: PartitionProduceResponse."""

    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: list[BatchIndexAndErrorMessage] = []
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)


class TopicProduceResponse(KafkaStruct, kw_only=True):
    """ProduceResponse.json: TopicProduceResponse."""

    name: str = ""
    topic_id: bytes = bytes(16)
    partition_responses: list[PartitionProduceResponse] = []


class NodeEndpoint(KafkaStruct, kw_only=True):
    """ProduceResponse.json: NodeEndpoint."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


class ProduceResponse(KafkaStruct, kw_only=True):
    """ProduceResponse.json: ProduceResponse."""

    responses: list[TopicProduceResponse] = []
    throttle_time_ms: int = 0
    node_endpoints: list[NodeEndpoint] = []


BatchIndexAndErrorMessage.SPEC = struct_spec(
    BatchIndexAndErrorMessage,
    (9, MAX),
    Field("batch_index", INT32, (8, MAX)),
    Field("batch_index_error_message", STRING, (8, MAX), nullable=(8, MAX)),
)

LeaderIdAndEpoch.SPEC = struct_spec(
    LeaderIdAndEpoch,
    (9, MAX),
    Field("leader_id", INT32, (10, MAX)),
    Field("leader_epoch", INT32, (10, MAX)),
)

PartitionProduceResponse.SPEC = struct_spec(
    PartitionProduceResponse,
    (9, MAX),
    Field("index", INT32, (0, MAX)),
    Field("error_code", INT16, (0, MAX)),
    Field("base_offset", INT64, (0, MAX)),
    Field("log_append_time_ms", INT64, (2, MAX)),
    Field("log_start_offset", INT64, (5, MAX)),
    Field("record_errors", array_of(struct_of(BatchIndexAndErrorMessage)), (8, MAX)),
    Field("error_message", STRING, (8, MAX), nullable=(8, MAX)),
    Field("current_leader", struct_of(LeaderIdAndEpoch), (10, MAX), tag=0),
)

TopicProduceResponse.SPEC = struct_spec(
    TopicProduceResponse,
    (9, MAX),
    Field("name", STRING, (0, 12)),
    Field("topic_id", UUID, (13, MAX)),
    Field("partition_responses", array_of(struct_of(PartitionProduceResponse)), (0, MAX)),
)

NodeEndpoint.SPEC = struct_spec(
    NodeEndpoint,
    (9, MAX),
    Field("node_id", INT32, (10, MAX)),
    Field("host", STRING, (10, MAX)),
    Field("port", INT32, (10, MAX)),
    Field("rack", STRING, (10, MAX), nullable=(10, MAX)),
)

ProduceResponse.SPEC = struct_spec(
    ProduceResponse,
    (9, MAX),
    Field("responses", array_of(struct_of(TopicProduceResponse)), (0, MAX)),
    Field("throttle_time_ms", INT32, (1, MAX)),
    Field("node_endpoints", array_of(struct_of(NodeEndpoint)), (10, MAX), tag=0),
)

API_KEY = 0
VERSIONS = (3, 13)

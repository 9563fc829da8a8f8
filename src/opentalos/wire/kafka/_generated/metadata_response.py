"""Generated from idl/kafka/MetadataResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BOOL,
    INT16,
    INT32,
    MAX,
    STRING,
    UUID,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class MetadataResponseBroker(KafkaStruct, kw_only=True):
    """MetadataResponse.json: MetadataResponseBroker."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


class MetadataResponsePartition(KafkaStruct, kw_only=True):
    """MetadataResponse.json: MetadataResponsePartition."""

    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = []
    isr_nodes: list[int] = []
    offline_replicas: list[int] = []


class MetadataResponseTopic(KafkaStruct, kw_only=True):
    """MetadataResponse.json: MetadataResponseTopic."""

    error_code: int = 0
    name: str | None = ""
    topic_id: bytes = bytes(16)
    is_internal: bool = False
    partitions: list[MetadataResponsePartition] = []
    topic_authorized_operations: int = -2147483648


class MetadataResponse(KafkaStruct, kw_only=True):
    """MetadataResponse.json: MetadataResponse."""

    throttle_time_ms: int = 0
    brokers: list[MetadataResponseBroker] = []
    cluster_id: str | None = None
    controller_id: int = -1
    topics: list[MetadataResponseTopic] = []
    cluster_authorized_operations: int = -2147483648
    error_code: int = 0


MetadataResponseBroker.SPEC = struct_spec(
    MetadataResponseBroker,
    (9, MAX),
    Field("node_id", INT32, (0, MAX)),
    Field("host", STRING, (0, MAX)),
    Field("port", INT32, (0, MAX)),
    Field("rack", STRING, (1, MAX), nullable=(1, MAX)),
)

MetadataResponsePartition.SPEC = struct_spec(
    MetadataResponsePartition,
    (9, MAX),
    Field("error_code", INT16, (0, MAX)),
    Field("partition_index", INT32, (0, MAX)),
    Field("leader_id", INT32, (0, MAX)),
    Field("leader_epoch", INT32, (7, MAX)),
    Field("replica_nodes", array_of(INT32), (0, MAX)),
    Field("isr_nodes", array_of(INT32), (0, MAX)),
    Field("offline_replicas", array_of(INT32), (5, MAX)),
)

MetadataResponseTopic.SPEC = struct_spec(
    MetadataResponseTopic,
    (9, MAX),
    Field("error_code", INT16, (0, MAX)),
    Field("name", STRING, (0, MAX), nullable=(12, MAX)),
    Field("topic_id", UUID, (10, MAX)),
    Field("is_internal", BOOL, (1, MAX)),
    Field("partitions", array_of(struct_of(MetadataResponsePartition)), (0, MAX)),
    Field("topic_authorized_operations", INT32, (8, MAX)),
)

MetadataResponse.SPEC = struct_spec(
    MetadataResponse,
    (9, MAX),
    Field("throttle_time_ms", INT32, (3, MAX)),
    Field("brokers", array_of(struct_of(MetadataResponseBroker)), (0, MAX)),
    Field("cluster_id", STRING, (2, MAX), nullable=(2, MAX)),
    Field("controller_id", INT32, (1, MAX)),
    Field("topics", array_of(struct_of(MetadataResponseTopic)), (0, MAX)),
    Field("cluster_authorized_operations", INT32, (8, 10)),
    Field("error_code", INT16, (13, MAX)),
)

API_KEY = 3
VERSIONS = (0, 13)

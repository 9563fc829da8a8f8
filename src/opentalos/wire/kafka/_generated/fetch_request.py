"""Generated from idl/kafka/FetchRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from msgspec import field

from opentalos.wire.kafka.spec import (
    INT32,
    INT64,
    INT8,
    MAX,
    STRING,
    UUID,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class ReplicaState(KafkaStruct, kw_only=True):
    """FetchRequest.json: ReplicaState."""

    replica_id: int = -1
    replica_epoch: int = -1


class FetchPartition(KafkaStruct, kw_only=True):
    """FetchRequest.json: FetchPartition."""

    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: bytes = bytes(16)
    high_watermark: int = 9223372036854775807


class FetchTopic(KafkaStruct, kw_only=True):
    """FetchRequest.json: FetchTopic."""

    topic: str = ""
    topic_id: bytes = bytes(16)
    partitions: list[FetchPartition] = []


class ForgottenTopic(KafkaStruct, kw_only=True):
    """FetchRequest.json: ForgottenTopic."""

    topic: str = ""
    topic_id: bytes = bytes(16)
    partitions: list[int] = []


class FetchRequest(KafkaStruct, kw_only=True):
    """FetchRequest.json: FetchRequest."""

    cluster_id: str | None = None
    replica_id: int = -1
    replica_state: ReplicaState = field(default_factory=ReplicaState)
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: list[FetchTopic] = []
    forgotten_topics_data: list[ForgottenTopic] = []
    rack_id: str = ""


ReplicaState.SPEC = struct_spec(
    ReplicaState,
    (12, MAX),
    Field("replica_id", INT32, (15, MAX)),
    Field("replica_epoch", INT64, (15, MAX)),
)

FetchPartition.SPEC = struct_spec(
    FetchPartition,
    (12, MAX),
    Field("partition", INT32, (0, MAX)),
    Field("current_leader_epoch", INT32, (9, MAX)),
    Field("fetch_offset", INT64, (0, MAX)),
    Field("last_fetched_epoch", INT32, (12, MAX)),
    Field("log_start_offset", INT64, (5, MAX)),
    Field("partition_max_bytes", INT32, (0, MAX)),
    Field("replica_directory_id", UUID, (17, MAX), tag=0),
    Field("high_watermark", INT64, (18, MAX), tag=1),
)

FetchTopic.SPEC = struct_spec(
    FetchTopic,
    (12, MAX),
    Field("topic", STRING, (0, 12)),
    Field("topic_id", UUID, (13, MAX)),
    Field("partitions", array_of(struct_of(FetchPartition)), (0, MAX)),
)

ForgottenTopic.SPEC = struct_spec(
    ForgottenTopic,
    (12, MAX),
    Field("topic", STRING, (7, 12)),
    Field("topic_id", UUID, (13, MAX)),
    Field("partitions", array_of(INT32), (7, MAX)),
)

FetchRequest.SPEC = struct_spec(
    FetchRequest,
    (12, MAX),
    Field("cluster_id", STRING, (12, MAX), nullable=(12, MAX), tag=0),
    Field("replica_id", INT32, (0, 14)),
    Field("replica_state", struct_of(ReplicaState), (15, MAX), tag=1),
    Field("max_wait_ms", INT32, (0, MAX)),
    Field("min_bytes", INT32, (0, MAX)),
    Field("max_bytes", INT32, (3, MAX)),
    Field("isolation_level", INT8, (4, MAX)),
    Field("session_id", INT32, (7, MAX)),
    Field("session_epoch", INT32, (7, MAX)),
    Field("topics", array_of(struct_of(FetchTopic)), (0, MAX)),
    Field("forgotten_topics_data", array_of(struct_of(ForgottenTopic)), (7, MAX)),
    Field("rack_id", STRING, (11, MAX)),
)

API_KEY = 1
VERSIONS = (4, 18)

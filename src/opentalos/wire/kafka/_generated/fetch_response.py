"""Generated from idl/kafka/FetchResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from msgspec import field

from opentalos.wire.kafka.spec import (
    INT16,
    INT32,
    INT64,
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


class EpochEndOffset(KafkaStruct, kw_only=True):
    """FetchResponse.json: EpochEndOffset."""

    epoch: int = -1
    end_offset: int = -1


class LeaderIdAndEpoch(KafkaStruct, kw_only=True):
    """FetchResponse.json: LeaderIdAndEpoch."""

    leader_id: int = -1
    leader_epoch: int = -1


class SnapshotId(KafkaStruct, kw_only=True):
    """FetchResponse.json: SnapshotId."""

    end_offset: int = -1
    epoch: int = -1


class AbortedTransaction(KafkaStruct, kw_only=True):
    """FetchResponse.json: AbortedTransaction."""

    producer_id: int = 0
    first_offset: int = 0


class PartitionData(KafkaStruct, kw_only=True):
    """FetchResponse.json: PartitionData."""

    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset = field(default_factory=EpochEndOffset)
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    aborted_transactions: list[AbortedTransaction] | None = []
    preferred_read_replica: int = -1
    records: bytes | memoryview | None = b""


class FetchableTopicResponse(KafkaStruct, kw_only=True):
    """FetchResponse.json: FetchableTopicResponse."""

    topic: str = ""
    topic_id: bytes = bytes(16)
    partitions: list[PartitionData] = []


class NodeEndpoint(KafkaStruct, kw_only=True):
    """FetchResponse.json: NodeEndpoint."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


class FetchResponse(KafkaStruct, kw_only=True):
    """FetchResponse.json: FetchResponse."""

    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: list[FetchableTopicResponse] = []
    node_endpoints: list[NodeEndpoint] = []


EpochEndOffset.SPEC = struct_spec(
    EpochEndOffset,
    (12, MAX),
    Field("epoch", INT32, (12, MAX)),
    Field("end_offset", INT64, (12, MAX)),
)

LeaderIdAndEpoch.SPEC = struct_spec(
    LeaderIdAndEpoch,
    (12, MAX),
    Field("leader_id", INT32, (12, MAX)),
    Field("leader_epoch", INT32, (12, MAX)),
)

SnapshotId.SPEC = struct_spec(
    SnapshotId,
    (12, MAX),
    Field("end_offset", INT64, (0, MAX)),
    Field("epoch", INT32, (0, MAX)),
)

AbortedTransaction.SPEC = struct_spec(
    AbortedTransaction,
    (12, MAX),
    Field("producer_id", INT64, (4, MAX)),
    Field("first_offset", INT64, (4, MAX)),
)

PartitionData.SPEC = struct_spec(
    PartitionData,
    (12, MAX),
    Field("partition_index", INT32, (0, MAX)),
    Field("error_code", INT16, (0, MAX)),
    Field("high_watermark", INT64, (0, MAX)),
    Field("last_stable_offset", INT64, (4, MAX)),
    Field("log_start_offset", INT64, (5, MAX)),
    Field("diverging_epoch", struct_of(EpochEndOffset), (12, MAX), tag=0),
    Field("current_leader", struct_of(LeaderIdAndEpoch), (12, MAX), tag=1),
    Field("snapshot_id", struct_of(SnapshotId), (12, MAX), tag=2),
    Field("aborted_transactions", array_of(struct_of(AbortedTransaction)), (4, MAX), nullable=(4, MAX)),
    Field("preferred_read_replica", INT32, (11, MAX)),
    Field("records", RECORDS, (0, MAX), nullable=(0, MAX)),
)

FetchableTopicResponse.SPEC = struct_spec(
    FetchableTopicResponse,
    (12, MAX),
    Field("topic", STRING, (0, 12)),
    Field("topic_id", UUID, (13, MAX)),
    Field("partitions", array_of(struct_of(PartitionData)), (0, MAX)),
)

NodeEndpoint.SPEC = struct_spec(
    NodeEndpoint,
    (12, MAX),
    Field("node_id", INT32, (16, MAX)),
    Field("host", STRING, (16, MAX)),
    Field("port", INT32, (16, MAX)),
    Field("rack", STRING, (16, MAX), nullable=(16, MAX)),
)

FetchResponse.SPEC = struct_spec(
    FetchResponse,
    (12, MAX),
    Field("throttle_time_ms", INT32, (1, MAX)),
    Field("error_code", INT16, (7, MAX)),
    Field("session_id", INT32, (7, MAX)),
    Field("responses", array_of(struct_of(FetchableTopicResponse)), (0, MAX)),
    Field("node_endpoints", array_of(struct_of(NodeEndpoint)), (16, MAX), tag=0),
)

API_KEY = 1
VERSIONS = (4, 18)

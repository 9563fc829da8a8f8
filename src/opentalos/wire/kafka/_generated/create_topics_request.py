"""Generated from idl/kafka/CreateTopicsRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BOOL,
    INT16,
    INT32,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class CreatableReplicaAssignment(KafkaStruct, kw_only=True):
    """CreateTopicsRequest.json: CreatableReplicaAssignment."""

    partition_index: int = 0
    broker_ids: list[int] = []


class CreatableTopicConfig(KafkaStruct, kw_only=True):
    """CreateTopicsRequest.json: CreatableTopicConfig."""

    name: str = ""
    value: str | None = ""


class CreatableTopic(KafkaStruct, kw_only=True):
    """CreateTopicsRequest.json: CreatableTopic."""

    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: list[CreatableReplicaAssignment] = []
    configs: list[CreatableTopicConfig] = []


class CreateTopicsRequest(KafkaStruct, kw_only=True):
    """CreateTopicsRequest.json: CreateTopicsRequest."""

    topics: list[CreatableTopic] = []
    timeout_ms: int = 60000
    validate_only: bool = False


CreatableReplicaAssignment.SPEC = struct_spec(
    CreatableReplicaAssignment,
    (5, MAX),
    Field("partition_index", INT32, (0, MAX)),
    Field("broker_ids", array_of(INT32), (0, MAX)),
)

CreatableTopicConfig.SPEC = struct_spec(
    CreatableTopicConfig,
    (5, MAX),
    Field("name", STRING, (0, MAX)),
    Field("value", STRING, (0, MAX), nullable=(0, MAX)),
)

CreatableTopic.SPEC = struct_spec(
    CreatableTopic,
    (5, MAX),
    Field("name", STRING, (0, MAX)),
    Field("num_partitions", INT32, (0, MAX)),
    Field("replication_factor", INT16, (0, MAX)),
    Field("assignments", array_of(struct_of(CreatableReplicaAssignment)), (0, MAX)),
    Field("configs", array_of(struct_of(CreatableTopicConfig)), (0, MAX)),
)

CreateTopicsRequest.SPEC = struct_spec(
    CreateTopicsRequest,
    (5, MAX),
    Field("topics", array_of(struct_of(CreatableTopic)), (0, MAX)),
    Field("timeout_ms", INT32, (0, MAX)),
    Field("validate_only", BOOL, (1, MAX)),
)

API_KEY = 19
VERSIONS = (2, 7)

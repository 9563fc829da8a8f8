"""Generated from idl/kafka/CreatePartitionsRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BOOL,
    INT32,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class CreatePartitionsAssignment(KafkaStruct, kw_only=True):
    """CreatePartitionsRequest.json: CreatePartitionsAssignment."""

    broker_ids: list[int] = []


class CreatePartitionsTopic(KafkaStruct, kw_only=True):
    """CreatePartitionsRequest.json: CreatePartitionsTopic."""

    name: str = ""
    count: int = 0
    assignments: list[CreatePartitionsAssignment] | None = []


class CreatePartitionsRequest(KafkaStruct, kw_only=True):
    """CreatePartitionsRequest.json: CreatePartitionsRequest."""

    topics: list[CreatePartitionsTopic] = []
    timeout_ms: int = 0
    validate_only: bool = False


CreatePartitionsAssignment.SPEC = struct_spec(
    CreatePartitionsAssignment,
    (2, MAX),
    Field("broker_ids", array_of(INT32), (0, MAX)),
)

CreatePartitionsTopic.SPEC = struct_spec(
    CreatePartitionsTopic,
    (2, MAX),
    Field("name", STRING, (0, MAX)),
    Field("count", INT32, (0, MAX)),
    Field("assignments", array_of(struct_of(CreatePartitionsAssignment)), (0, MAX), nullable=(0, MAX)),
)

CreatePartitionsRequest.SPEC = struct_spec(
    CreatePartitionsRequest,
    (2, MAX),
    Field("topics", array_of(struct_of(CreatePartitionsTopic)), (0, MAX)),
    Field("timeout_ms", INT32, (0, MAX)),
    Field("validate_only", BOOL, (0, MAX)),
)

API_KEY = 37
VERSIONS = (0, 3)

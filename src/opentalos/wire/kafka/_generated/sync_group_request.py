"""Generated from idl/kafka/SyncGroupRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BYTES,
    INT32,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class SyncGroupRequestAssignment(KafkaStruct, kw_only=True):
    """SyncGroupRequest.json: SyncGroupRequestAssignment."""

    member_id: str = ""
    assignment: bytes = b""


class SyncGroupRequest(KafkaStruct, kw_only=True):
    """SyncGroupRequest.json: SyncGroupRequest."""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: list[SyncGroupRequestAssignment] = []


SyncGroupRequestAssignment.SPEC = struct_spec(
    SyncGroupRequestAssignment,
    (4, MAX),
    Field("member_id", STRING, (0, MAX)),
    Field("assignment", BYTES, (0, MAX)),
)

SyncGroupRequest.SPEC = struct_spec(
    SyncGroupRequest,
    (4, MAX),
    Field("group_id", STRING, (0, MAX)),
    Field("generation_id", INT32, (0, MAX)),
    Field("member_id", STRING, (0, MAX)),
    Field("group_instance_id", STRING, (3, MAX), nullable=(3, MAX)),
    Field("protocol_type", STRING, (5, MAX), nullable=(5, MAX)),
    Field("protocol_name", STRING, (5, MAX), nullable=(5, MAX)),
    Field("assignments", array_of(struct_of(SyncGroupRequestAssignment)), (0, MAX)),
)

API_KEY = 14
VERSIONS = (0, 5)

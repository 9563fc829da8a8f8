"""Generated from idl/kafka/JoinGroupResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BOOL,
    BYTES,
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


class JoinGroupResponseMember(KafkaStruct, kw_only=True):
    """JoinGroupResponse.json: JoinGroupResponseMember."""

    member_id: str = ""
    group_instance_id: str | None = None
    metadata: bytes = b""


class JoinGroupResponse(KafkaStruct, kw_only=True):
    """JoinGroupResponse.json: JoinGroupResponse."""

    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = []


JoinGroupResponseMember.SPEC = struct_spec(
    JoinGroupResponseMember,
    (6, MAX),
    Field("member_id", STRING, (0, MAX)),
    Field("group_instance_id", STRING, (5, MAX), nullable=(5, MAX)),
    Field("metadata", BYTES, (0, MAX)),
)

JoinGroupResponse.SPEC = struct_spec(
    JoinGroupResponse,
    (6, MAX),
    Field("throttle_time_ms", INT32, (2, MAX)),
    Field("error_code", INT16, (0, MAX)),
    Field("generation_id", INT32, (0, MAX)),
    Field("protocol_type", STRING, (7, MAX), nullable=(7, MAX)),
    Field("protocol_name", STRING, (0, MAX), nullable=(7, MAX)),
    Field("leader", STRING, (0, MAX)),
    Field("skip_assignment", BOOL, (9, MAX)),
    Field("member_id", STRING, (0, MAX)),
    Field("members", array_of(struct_of(JoinGroupResponseMember)), (0, MAX)),
)

API_KEY = 11
VERSIONS = (0, 9)

"""Generated from idl/kafka/LeaveGroupResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
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


class MemberResponse(KafkaStruct, kw_only=True):
    """LeaveGroupResponse.json: MemberResponse."""

    member_id: str = ""
    group_instance_id: str | None = ""
    error_code: int = 0


class LeaveGroupResponse(KafkaStruct, kw_only=True):
    """LeaveGroupResponse.json: LeaveGroupResponse."""

    throttle_time_ms: int = 0
    error_code: int = 0
    members: list[MemberResponse] = []


MemberResponse.SPEC = struct_spec(
    MemberResponse,
    (4, MAX),
    Field("member_id", STRING, (3, MAX)),
    Field("group_instance_id", STRING, (3, MAX), nullable=(3, MAX)),
    Field("error_code", INT16, (3, MAX)),
)

LeaveGroupResponse.SPEC = struct_spec(
    LeaveGroupResponse,
    (4, MAX),
    Field("throttle_time_ms", INT32, (1, MAX)),
    Field("error_code", INT16, (0, MAX)),
    Field("members", array_of(struct_of(MemberResponse)), (3, MAX)),
)

API_KEY = 13
VERSIONS = (0, 5)

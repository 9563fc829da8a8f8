"""Generated from idl/kafka/LeaveGroupRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class MemberIdentity(KafkaStruct, kw_only=True):
    """LeaveGroupRequest.json: MemberIdentity."""

    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None


class LeaveGroupRequest(KafkaStruct, kw_only=True):
    """LeaveGroupRequest.json: LeaveGroupRequest."""

    group_id: str = ""
    member_id: str = ""
    members: list[MemberIdentity] = []


MemberIdentity.SPEC = struct_spec(
    MemberIdentity,
    (4, MAX),
    Field("member_id", STRING, (3, MAX)),
    Field("group_instance_id", STRING, (3, MAX), nullable=(3, MAX)),
    Field("reason", STRING, (5, MAX), nullable=(5, MAX)),
)

LeaveGroupRequest.SPEC = struct_spec(
    LeaveGroupRequest,
    (4, MAX),
    Field("group_id", STRING, (0, MAX)),
    Field("member_id", STRING, (0, 2)),
    Field("members", array_of(struct_of(MemberIdentity)), (3, MAX)),
)

API_KEY = 13
VERSIONS = (0, 5)

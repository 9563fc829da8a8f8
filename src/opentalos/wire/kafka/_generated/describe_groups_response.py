"""Generated from idl/kafka/DescribeGroupsResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
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


class DescribedGroupMember(KafkaStruct, kw_only=True):
    """DescribeGroupsResponse.json: DescribedGroupMember."""

    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(KafkaStruct, kw_only=True):
    """DescribeGroupsResponse.json: DescribedGroup."""

    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = []
    authorized_operations: int = -2147483648


class DescribeGroupsResponse(KafkaStruct, kw_only=True):
    """DescribeGroupsResponse.json: DescribeGroupsResponse."""

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = []


DescribedGroupMember.SPEC = struct_spec(
    DescribedGroupMember,
    (5, MAX),
    Field("member_id", STRING, (0, MAX)),
    Field("group_instance_id", STRING, (4, MAX), nullable=(4, MAX)),
    Field("client_id", STRING, (0, MAX)),
    Field("client_host", STRING, (0, MAX)),
    Field("member_metadata", BYTES, (0, MAX)),
    Field("member_assignment", BYTES, (0, MAX)),
)

DescribedGroup.SPEC = struct_spec(
    DescribedGroup,
    (5, MAX),
    Field("error_code", INT16, (0, MAX)),
    Field("error_message", STRING, (6, MAX), nullable=(6, MAX)),
    Field("group_id", STRING, (0, MAX)),
    Field("group_state", STRING, (0, MAX)),
    Field("protocol_type", STRING, (0, MAX)),
    Field("protocol_data", STRING, (0, MAX)),
    Field("members", array_of(struct_of(DescribedGroupMember)), (0, MAX)),
    Field("authorized_operations", INT32, (3, MAX)),
)

DescribeGroupsResponse.SPEC = struct_spec(
    DescribeGroupsResponse,
    (5, MAX),
    Field("throttle_time_ms", INT32, (1, MAX)),
    Field("groups", array_of(struct_of(DescribedGroup)), (0, MAX)),
)

API_KEY = 15
VERSIONS = (0, 6)

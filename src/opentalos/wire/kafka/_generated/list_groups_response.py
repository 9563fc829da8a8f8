"""Generated from idl/kafka/ListGroupsResponse.json by scripts/generate_kafka.py."""

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


class ListedGroup(KafkaStruct, kw_only=True):
    """ListGroupsResponse.json: ListedGroup."""

    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""
    group_type: str = ""


class ListGroupsResponse(KafkaStruct, kw_only=True):
    """ListGroupsResponse.json: ListGroupsResponse."""

    throttle_time_ms: int = 0
    error_code: int = 0
    groups: list[ListedGroup] = []


ListedGroup.SPEC = struct_spec(
    ListedGroup,
    (3, MAX),
    Field("group_id", STRING, (0, MAX)),
    Field("protocol_type", STRING, (0, MAX)),
    Field("group_state", STRING, (4, MAX)),
    Field("group_type", STRING, (5, MAX)),
)

ListGroupsResponse.SPEC = struct_spec(
    ListGroupsResponse,
    (3, MAX),
    Field("throttle_time_ms", INT32, (1, MAX)),
    Field("error_code", INT16, (0, MAX)),
    Field("groups", array_of(struct_of(ListedGroup)), (0, MAX)),
)

API_KEY = 16
VERSIONS = (0, 5)

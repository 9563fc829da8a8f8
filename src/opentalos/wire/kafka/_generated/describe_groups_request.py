"""Generated from idl/kafka/DescribeGroupsRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BOOL,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_spec,
)


class DescribeGroupsRequest(KafkaStruct, kw_only=True):
    """DescribeGroupsRequest.json: DescribeGroupsRequest."""

    groups: list[str] = []
    include_authorized_operations: bool = False


DescribeGroupsRequest.SPEC = struct_spec(
    DescribeGroupsRequest,
    (5, MAX),
    Field("groups", array_of(STRING), (0, MAX)),
    Field("include_authorized_operations", BOOL, (3, MAX)),
)

API_KEY = 15
VERSIONS = (0, 6)

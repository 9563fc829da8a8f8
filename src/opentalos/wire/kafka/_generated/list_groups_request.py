"""Generated from idl/kafka/ListGroupsRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_spec,
)


class ListGroupsRequest(KafkaStruct, kw_only=True):
    """ListGroupsRequest.json: ListGroupsRequest."""

    states_filter: list[str] = []
    types_filter: list[str] = []


ListGroupsRequest.SPEC = struct_spec(
    ListGroupsRequest,
    (3, MAX),
    Field("states_filter", array_of(STRING), (4, MAX)),
    Field("types_filter", array_of(STRING), (5, MAX)),
)

API_KEY = 16
VERSIONS = (0, 5)

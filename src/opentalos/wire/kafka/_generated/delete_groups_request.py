"""Generated from idl/kafka/DeleteGroupsRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_spec,
)


class DeleteGroupsRequest(KafkaStruct, kw_only=True):
    """DeleteGroupsRequest.json: DeleteGroupsRequest."""

    groups_names: list[str] = []


DeleteGroupsRequest.SPEC = struct_spec(
    DeleteGroupsRequest,
    (2, MAX),
    Field("groups_names", array_of(STRING), (0, MAX)),
)

API_KEY = 42
VERSIONS = (0, 2)

"""Generated from idl/kafka/FindCoordinatorRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT8,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_spec,
)


class FindCoordinatorRequest(KafkaStruct, kw_only=True):
    """FindCoordinatorRequest.json: FindCoordinatorRequest."""

    key: str = ""
    key_type: int = 0
    coordinator_keys: list[str] = []


FindCoordinatorRequest.SPEC = struct_spec(
    FindCoordinatorRequest,
    (3, MAX),
    Field("key", STRING, (0, 3)),
    Field("key_type", INT8, (1, MAX)),
    Field("coordinator_keys", array_of(STRING), (4, MAX)),
)

API_KEY = 10
VERSIONS = (0, 6)

"""Generated from idl/kafka/FindCoordinatorResponse.json by scripts/generate_kafka.py."""

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


class Coordinator(KafkaStruct, kw_only=True):
    """FindCoordinatorResponse.json: Coordinator."""

    key: str = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    error_code: int = 0
    error_message: str | None = ""


class FindCoordinatorResponse(KafkaStruct, kw_only=True):
    """FindCoordinatorResponse.json: FindCoordinatorResponse."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    coordinators: list[Coordinator] = []


Coordinator.SPEC = struct_spec(
    Coordinator,
    (3, MAX),
    Field("key", STRING, (4, MAX)),
    Field("node_id", INT32, (4, MAX)),
    Field("host", STRING, (4, MAX)),
    Field("port", INT32, (4, MAX)),
    Field("error_code", INT16, (4, MAX)),
    Field("error_message", STRING, (4, MAX), nullable=(4, MAX)),
)

FindCoordinatorResponse.SPEC = struct_spec(
    FindCoordinatorResponse,
    (3, MAX),
    Field("throttle_time_ms", INT32, (1, MAX)),
    Field("error_code", INT16, (0, 3)),
    Field("error_message", STRING, (1, 3), nullable=(1, 3)),
    Field("node_id", INT32, (0, 3)),
    Field("host", STRING, (0, 3)),
    Field("port", INT32, (0, 3)),
    Field("coordinators", array_of(struct_of(Coordinator)), (4, MAX)),
)

API_KEY = 10
VERSIONS = (0, 6)

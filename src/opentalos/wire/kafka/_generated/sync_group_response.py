"""Generated from idl/kafka/SyncGroupResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BYTES,
    INT16,
    INT32,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    struct_spec,
)


class SyncGroupResponse(KafkaStruct, kw_only=True):
    """SyncGroupResponse.json: SyncGroupResponse."""

    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


SyncGroupResponse.SPEC = struct_spec(
    SyncGroupResponse,
    (4, MAX),
    Field("throttle_time_ms", INT32, (1, MAX)),
    Field("error_code", INT16, (0, MAX)),
    Field("protocol_type", STRING, (5, MAX), nullable=(5, MAX)),
    Field("protocol_name", STRING, (5, MAX), nullable=(5, MAX)),
    Field("assignment", BYTES, (0, MAX)),
)

API_KEY = 14
VERSIONS = (0, 5)

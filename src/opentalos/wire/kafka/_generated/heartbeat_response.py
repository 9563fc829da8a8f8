"""Generated from idl/kafka/HeartbeatResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT16,
    INT32,
    MAX,
    Field,
    KafkaStruct,
    struct_spec,
)


class HeartbeatResponse(KafkaStruct, kw_only=True):
    """HeartbeatResponse.json: HeartbeatResponse."""

    throttle_time_ms: int = 0
    error_code: int = 0


HeartbeatResponse.SPEC = struct_spec(
    HeartbeatResponse,
    (4, MAX),
    Field("throttle_time_ms", INT32, (1, MAX)),
    Field("error_code", INT16, (0, MAX)),
)

API_KEY = 12
VERSIONS = (0, 4)

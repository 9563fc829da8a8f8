"""Generated from idl/kafka/HeartbeatRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT32,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    struct_spec,
)


class HeartbeatRequest(KafkaStruct, kw_only=True):
    """HeartbeatRequest.json: HeartbeatRequest."""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None


HeartbeatRequest.SPEC = struct_spec(
    HeartbeatRequest,
    (4, MAX),
    Field("group_id", STRING, (0, MAX)),
    Field("generation_id", INT32, (0, MAX)),
    Field("member_id", STRING, (0, MAX)),
    Field("group_instance_id", STRING, (3, MAX), nullable=(3, MAX)),
)

API_KEY = 12
VERSIONS = (0, 4)

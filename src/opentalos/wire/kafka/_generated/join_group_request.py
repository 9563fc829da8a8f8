"""Generated from idl/kafka/JoinGroupRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BYTES,
    INT32,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class JoinGroupRequestProtocol(KafkaStruct, kw_only=True):
    """JoinGroupRequest.json: JoinGroupRequestProtocol."""

    name: str = ""
    metadata: bytes = b""


class JoinGroupRequest(KafkaStruct, kw_only=True):
    """JoinGroupRequest.json: JoinGroupRequest."""

    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = []
    reason: str | None = None


JoinGroupRequestProtocol.SPEC = struct_spec(
    JoinGroupRequestProtocol,
    (6, MAX),
    Field("name", STRING, (0, MAX)),
    Field("metadata", BYTES, (0, MAX)),
)

JoinGroupRequest.SPEC = struct_spec(
    JoinGroupRequest,
    (6, MAX),
    Field("group_id", STRING, (0, MAX)),
    Field("session_timeout_ms", INT32, (0, MAX)),
    Field("rebalance_timeout_ms", INT32, (1, MAX)),
    Field("member_id", STRING, (0, MAX)),
    Field("group_instance_id", STRING, (5, MAX), nullable=(5, MAX)),
    Field("protocol_type", STRING, (0, MAX)),
    Field("protocols", array_of(struct_of(JoinGroupRequestProtocol)), (0, MAX)),
    Field("reason", STRING, (8, MAX), nullable=(8, MAX)),
)

API_KEY = 11
VERSIONS = (0, 9)

"""Generated from idl/kafka/SaslAuthenticateResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BYTES,
    INT16,
    INT64,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    struct_spec,
)


class SaslAuthenticateResponse(KafkaStruct, kw_only=True):
    """SaslAuthenticateResponse.json: SaslAuthenticateResponse."""

    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0


SaslAuthenticateResponse.SPEC = struct_spec(
    SaslAuthenticateResponse,
    (2, MAX),
    Field("error_code", INT16, (0, MAX)),
    Field("error_message", STRING, (0, MAX), nullable=(0, MAX)),
    Field("auth_bytes", BYTES, (0, MAX)),
    Field("session_lifetime_ms", INT64, (1, MAX)),
)

API_KEY = 36
VERSIONS = (0, 2)

"""Generated from idl/kafka/SaslAuthenticateRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BYTES,
    MAX,
    Field,
    KafkaStruct,
    struct_spec,
)


class SaslAuthenticateRequest(KafkaStruct, kw_only=True):
    """SaslAuthenticateRequest.json: SaslAuthenticateRequest."""

    auth_bytes: bytes = b""


SaslAuthenticateRequest.SPEC = struct_spec(
    SaslAuthenticateRequest,
    (2, MAX),
    Field("auth_bytes", BYTES, (0, MAX)),
)

API_KEY = 36
VERSIONS = (0, 2)

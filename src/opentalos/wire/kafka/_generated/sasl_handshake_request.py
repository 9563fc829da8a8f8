"""Generated from idl/kafka/SaslHandshakeRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    MAX,
    STRING,
    Field,
    KafkaStruct,
    struct_spec,
)


class SaslHandshakeRequest(KafkaStruct, kw_only=True):
    """SaslHandshakeRequest.json: SaslHandshakeRequest."""

    mechanism: str = ""


SaslHandshakeRequest.SPEC = struct_spec(
    SaslHandshakeRequest,
    (0, -1),
    Field("mechanism", STRING, (0, MAX)),
)

API_KEY = 17
VERSIONS = (0, 1)

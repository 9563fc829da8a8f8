"""Generated from idl/kafka/SaslHandshakeResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT16,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_spec,
)


class SaslHandshakeResponse(KafkaStruct, kw_only=True):
    """SaslHandshakeResponse.json: SaslHandshakeResponse."""

    error_code: int = 0
    mechanisms: list[str] = []


SaslHandshakeResponse.SPEC = struct_spec(
    SaslHandshakeResponse,
    (0, -1),
    Field("error_code", INT16, (0, MAX)),
    Field("mechanisms", array_of(STRING), (0, MAX)),
)

API_KEY = 17
VERSIONS = (0, 1)

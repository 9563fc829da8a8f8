"""Generated from idl/kafka/RequestHeader.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT16,
    INT32,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    struct_spec,
)


class RequestHeader(KafkaStruct, kw_only=True):
    """RequestHeader.json: RequestHeader."""

    request_api_key: int = 0
    request_api_version: int = 0
    correlation_id: int = 0
    client_id: str | None = ""


RequestHeader.SPEC = struct_spec(
    RequestHeader,
    (2, MAX),
    Field("request_api_key", INT16, (0, MAX)),
    Field("request_api_version", INT16, (0, MAX)),
    Field("correlation_id", INT32, (0, MAX)),
    Field("client_id", STRING, (1, MAX), nullable=(1, MAX)),
)

VERSIONS = (1, 2)

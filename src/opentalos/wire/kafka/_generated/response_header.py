"""Generated from idl/kafka/ResponseHeader.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT32,
    MAX,
    Field,
    KafkaStruct,
    struct_spec,
)


class ResponseHeader(KafkaStruct, kw_only=True):
    """ResponseHeader.json: ResponseHeader."""

    correlation_id: int = 0


ResponseHeader.SPEC = struct_spec(
    ResponseHeader,
    (1, MAX),
    Field("correlation_id", INT32, (0, MAX)),
)

VERSIONS = (0, 1)

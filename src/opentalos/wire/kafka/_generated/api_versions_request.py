"""Generated from idl/kafka/ApiVersionsRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    MAX,
    STRING,
    Field,
    KafkaStruct,
    struct_spec,
)


class ApiVersionsRequest(KafkaStruct, kw_only=True):
    """ApiVersionsRequest.json: ApiVersionsRequest."""

    client_software_name: str = ""
    client_software_version: str = ""


ApiVersionsRequest.SPEC = struct_spec(
    ApiVersionsRequest,
    (3, MAX),
    Field("client_software_name", STRING, (3, MAX)),
    Field("client_software_version", STRING, (3, MAX)),
)

API_KEY = 18
VERSIONS = (0, 4)

"""Generated from idl/kafka/AlterConfigsRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BOOL,
    INT8,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class AlterableConfig(KafkaStruct, kw_only=True):
    """AlterConfigsRequest.json: AlterableConfig."""

    name: str = ""
    value: str | None = ""


class AlterConfigsResource(KafkaStruct, kw_only=True):
    """AlterConfigsRequest.json: AlterConfigsResource."""

    resource_type: int = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = []


class AlterConfigsRequest(KafkaStruct, kw_only=True):
    """AlterConfigsRequest.json: AlterConfigsRequest."""

    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


AlterableConfig.SPEC = struct_spec(
    AlterableConfig,
    (2, MAX),
    Field("name", STRING, (0, MAX)),
    Field("value", STRING, (0, MAX), nullable=(0, MAX)),
)

AlterConfigsResource.SPEC = struct_spec(
    AlterConfigsResource,
    (2, MAX),
    Field("resource_type", INT8, (0, MAX)),
    Field("resource_name", STRING, (0, MAX)),
    Field("configs", array_of(struct_of(AlterableConfig)), (0, MAX)),
)

AlterConfigsRequest.SPEC = struct_spec(
    AlterConfigsRequest,
    (2, MAX),
    Field("resources", array_of(struct_of(AlterConfigsResource)), (0, MAX)),
    Field("validate_only", BOOL, (0, MAX)),
)

API_KEY = 33
VERSIONS = (0, 2)

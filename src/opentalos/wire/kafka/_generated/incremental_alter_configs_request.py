"""Generated from idl/kafka/IncrementalAlterConfigsRequest.json by scripts/generate_kafka.py."""

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
    """IncrementalAlterConfigsRequest.json: AlterableConfig."""

    name: str = ""
    config_operation: int = 0
    value: str | None = ""


class AlterConfigsResource(KafkaStruct, kw_only=True):
    """IncrementalAlterConfigsRequest.json: AlterConfigsResource."""

    resource_type: int = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = []


class IncrementalAlterConfigsRequest(KafkaStruct, kw_only=True):
    """IncrementalAlterConfigsRequest.json: IncrementalAlterConfigsRequest."""

    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


AlterableConfig.SPEC = struct_spec(
    AlterableConfig,
    (1, MAX),
    Field("name", STRING, (0, MAX)),
    Field("config_operation", INT8, (0, MAX)),
    Field("value", STRING, (0, MAX), nullable=(0, MAX)),
)

AlterConfigsResource.SPEC = struct_spec(
    AlterConfigsResource,
    (1, MAX),
    Field("resource_type", INT8, (0, MAX)),
    Field("resource_name", STRING, (0, MAX)),
    Field("configs", array_of(struct_of(AlterableConfig)), (0, MAX)),
)

IncrementalAlterConfigsRequest.SPEC = struct_spec(
    IncrementalAlterConfigsRequest,
    (1, MAX),
    Field("resources", array_of(struct_of(AlterConfigsResource)), (0, MAX)),
    Field("validate_only", BOOL, (0, MAX)),
)

API_KEY = 44
VERSIONS = (0, 1)

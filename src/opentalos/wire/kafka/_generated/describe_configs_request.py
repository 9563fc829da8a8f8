"""Generated from idl/kafka/DescribeConfigsRequest.json by scripts/generate_kafka.py."""

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


class DescribeConfigsResource(KafkaStruct, kw_only=True):
    """DescribeConfigsRequest.json: DescribeConfigsResource."""

    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = []


class DescribeConfigsRequest(KafkaStruct, kw_only=True):
    """DescribeConfigsRequest.json: DescribeConfigsRequest."""

    resources: list[DescribeConfigsResource] = []
    include_synonyms: bool = False
    include_documentation: bool = False


DescribeConfigsResource.SPEC = struct_spec(
    DescribeConfigsResource,
    (4, MAX),
    Field("resource_type", INT8, (0, MAX)),
    Field("resource_name", STRING, (0, MAX)),
    Field("configuration_keys", array_of(STRING), (0, MAX), nullable=(0, MAX)),
)

DescribeConfigsRequest.SPEC = struct_spec(
    DescribeConfigsRequest,
    (4, MAX),
    Field("resources", array_of(struct_of(DescribeConfigsResource)), (0, MAX)),
    Field("include_synonyms", BOOL, (1, MAX)),
    Field("include_documentation", BOOL, (3, MAX)),
)

API_KEY = 32
VERSIONS = (1, 4)

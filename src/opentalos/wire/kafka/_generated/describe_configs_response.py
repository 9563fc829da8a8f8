"""Generated from idl/kafka/DescribeConfigsResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BOOL,
    INT16,
    INT32,
    INT8,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class DescribeConfigsSynonym(KafkaStruct, kw_only=True):
    """DescribeConfigsResponse.json: DescribeConfigsSynonym."""

    name: str = ""
    value: str | None = ""
    source: int = 0


class DescribeConfigsResourceResult(KafkaStruct, kw_only=True):
    """DescribeConfigsResponse.json: DescribeConfigsResourceResult."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = []
    config_type: int = 0
    documentation: str | None = ""


class DescribeConfigsResult(KafkaStruct, kw_only=True):
    """DescribeConfigsResponse.json: DescribeConfigsResult."""

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = []


class DescribeConfigsResponse(KafkaStruct, kw_only=True):
    """DescribeConfigsResponse.json: DescribeConfigsResponse."""

    throttle_time_ms: int = 0
    results: list[DescribeConfigsResult] = []


DescribeConfigsSynonym.SPEC = struct_spec(
    DescribeConfigsSynonym,
    (4, MAX),
    Field("name", STRING, (1, MAX)),
    Field("value", STRING, (1, MAX), nullable=(0, MAX)),
    Field("source", INT8, (1, MAX)),
)

DescribeConfigsResourceResult.SPEC = struct_spec(
    DescribeConfigsResourceResult,
    (4, MAX),
    Field("name", STRING, (0, MAX)),
    Field("value", STRING, (0, MAX), nullable=(0, MAX)),
    Field("read_only", BOOL, (0, MAX)),
    Field("config_source", INT8, (1, MAX)),
    Field("is_sensitive", BOOL, (0, MAX)),
    Field("synonyms", array_of(struct_of(DescribeConfigsSynonym)), (1, MAX)),
    Field("config_type", INT8, (3, MAX)),
    Field("documentation", STRING, (3, MAX), nullable=(0, MAX)),
)

DescribeConfigsResult.SPEC = struct_spec(
    DescribeConfigsResult,
    (4, MAX),
    Field("error_code", INT16, (0, MAX)),
    Field("error_message", STRING, (0, MAX), nullable=(0, MAX)),
    Field("resource_type", INT8, (0, MAX)),
    Field("resource_name", STRING, (0, MAX)),
    Field("configs", array_of(struct_of(DescribeConfigsResourceResult)), (0, MAX)),
)

DescribeConfigsResponse.SPEC = struct_spec(
    DescribeConfigsResponse,
    (4, MAX),
    Field("throttle_time_ms", INT32, (0, MAX)),
    Field("results", array_of(struct_of(DescribeConfigsResult)), (0, MAX)),
)

API_KEY = 32
VERSIONS = (1, 4)

"""Generated from idl/kafka/CreateTopicsResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BOOL,
    INT16,
    INT32,
    INT8,
    MAX,
    STRING,
    UUID,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class CreatableTopicConfigs(KafkaStruct, kw_only=True):
    """CreateTopicsResponse.json: CreatableTopicConfigs."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


class CreatableTopicResult(KafkaStruct, kw_only=True):
    """CreateTopicsResponse.json: CreatableTopicResult."""

    name: str = ""
    topic_id: bytes = bytes(16)
    error_code: int = 0
    error_message: str | None = ""
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: list[CreatableTopicConfigs] | None = []


class CreateTopicsResponse(KafkaStruct, kw_only=True):
    """CreateTopicsResponse.json: CreateTopicsResponse."""

    throttle_time_ms: int = 0
    topics: list[CreatableTopicResult] = []


CreatableTopicConfigs.SPEC = struct_spec(
    CreatableTopicConfigs,
    (5, MAX),
    Field("name", STRING, (5, MAX)),
    Field("value", STRING, (5, MAX), nullable=(5, MAX)),
    Field("read_only", BOOL, (5, MAX)),
    Field("config_source", INT8, (5, MAX)),
    Field("is_sensitive", BOOL, (5, MAX)),
)

CreatableTopicResult.SPEC = struct_spec(
    CreatableTopicResult,
    (5, MAX),
    Field("name", STRING, (0, MAX)),
    Field("topic_id", UUID, (7, MAX)),
    Field("error_code", INT16, (0, MAX)),
    Field("error_message", STRING, (1, MAX), nullable=(0, MAX)),
    Field("topic_config_error_code", INT16, (5, MAX), tag=0),
    Field("num_partitions", INT32, (5, MAX)),
    Field("replication_factor", INT16, (5, MAX)),
    Field("configs", array_of(struct_of(CreatableTopicConfigs)), (5, MAX), nullable=(5, MAX)),
)

CreateTopicsResponse.SPEC = struct_spec(
    CreateTopicsResponse,
    (5, MAX),
    Field("throttle_time_ms", INT32, (2, MAX)),
    Field("topics", array_of(struct_of(CreatableTopicResult)), (0, MAX)),
)

API_KEY = 19
VERSIONS = (2, 7)

"""Generated from idl/kafka/MetadataRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BOOL,
    MAX,
    STRING,
    UUID,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class MetadataRequestTopic(KafkaStruct, kw_only=True):
    """MetadataRequest.json: MetadataRequestTopic."""

    topic_id: bytes = bytes(16)
    name: str | None = ""


class MetadataRequest(KafkaStruct, kw_only=True):
    """MetadataRequest.json: MetadataRequest."""

    topics: list[MetadataRequestTopic] | None = []
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


MetadataRequestTopic.SPEC = struct_spec(
    MetadataRequestTopic,
    (9, MAX),
    Field("topic_id", UUID, (10, MAX)),
    Field("name", STRING, (0, MAX), nullable=(10, MAX)),
)

MetadataRequest.SPEC = struct_spec(
    MetadataRequest,
    (9, MAX),
    Field("topics", array_of(struct_of(MetadataRequestTopic)), (0, MAX), nullable=(1, MAX)),
    Field("allow_auto_topic_creation", BOOL, (4, MAX)),
    Field("include_cluster_authorized_operations", BOOL, (8, 10)),
    Field("include_topic_authorized_operations", BOOL, (8, MAX)),
)

API_KEY = 3
VERSIONS = (0, 13)

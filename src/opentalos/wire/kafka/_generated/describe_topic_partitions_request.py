"""Generated from idl/kafka/DescribeTopicPartitionsRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    INT32,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class TopicRequest(KafkaStruct, kw_only=True):
    """DescribeTopicPartitionsRequest.json: TopicRequest."""

    name: str = ""


class Cursor(KafkaStruct, kw_only=True):
    """DescribeTopicPartitionsRequest.json: Cursor."""

    topic_name: str = ""
    partition_index: int = 0


class DescribeTopicPartitionsRequest(KafkaStruct, kw_only=True):
    """DescribeTopicPartitionsRequest.json: DescribeTopicPartitionsRequest."""

    topics: list[TopicRequest] = []
    response_partition_limit: int = 2000
    cursor: Cursor | None = None


TopicRequest.SPEC = struct_spec(
    TopicRequest,
    (0, MAX),
    Field("name", STRING, (0, MAX)),
)

Cursor.SPEC = struct_spec(
    Cursor,
    (0, MAX),
    Field("topic_name", STRING, (0, MAX)),
    Field("partition_index", INT32, (0, MAX)),
)

DescribeTopicPartitionsRequest.SPEC = struct_spec(
    DescribeTopicPartitionsRequest,
    (0, MAX),
    Field("topics", array_of(struct_of(TopicRequest)), (0, MAX)),
    Field("response_partition_limit", INT32, (0, MAX)),
    Field("cursor", struct_of(Cursor), (0, MAX), nullable=(0, MAX)),
)

API_KEY = 75
VERSIONS = (0, 0)

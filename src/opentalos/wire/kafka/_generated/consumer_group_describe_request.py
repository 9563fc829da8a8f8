"""Generated from idl/kafka/ConsumerGroupDescribeRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BOOL,
    MAX,
    STRING,
    Field,
    KafkaStruct,
    array_of,
    struct_spec,
)


class ConsumerGroupDescribeRequest(KafkaStruct, kw_only=True):
    """ConsumerGroupDescribeRequest.json: ConsumerGroupDescribeRequest."""

    group_ids: list[str] = []
    include_authorized_operations: bool = False


ConsumerGroupDescribeRequest.SPEC = struct_spec(
    ConsumerGroupDescribeRequest,
    (0, MAX),
    Field("group_ids", array_of(STRING), (0, MAX)),
    Field("include_authorized_operations", BOOL, (0, MAX)),
)

API_KEY = 69
VERSIONS = (0, 1)

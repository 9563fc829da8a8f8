"""Generated from idl/kafka/OffsetFetchRequest.json by scripts/generate_kafka.py."""

from __future__ import annotations

from opentalos.wire.kafka.spec import (
    BOOL,
    INT32,
    MAX,
    STRING,
    UUID,
    Field,
    KafkaStruct,
    array_of,
    struct_of,
    struct_spec,
)


class OffsetFetchRequestTopic(KafkaStruct, kw_only=True):
    """OffsetFetchRequest.json: OffsetFetchRequestTopic."""

    name: str = ""
    partition_indexes: list[int] = []


class OffsetFetchRequestTopics(KafkaStruct, kw_only=True):
    """OffsetFetchRequest.json: OffsetFetchRequestTopics."""

    name: str = ""
    topic_id: bytes = bytes(16)
    partition_indexes: list[int] = []


class OffsetFetchRequestGroup(KafkaStruct, kw_only=True):
    """OffsetFetchRequest.json: OffsetFetchRequestGroup."""

    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: list[OffsetFetchRequestTopics] | None = []


class OffsetFetchRequest(KafkaStruct, kw_only=True):
    """OffsetFetchRequest.json: OffsetFetchRequest."""

    group_id: str = ""
    topics: list[OffsetFetchRequestTopic] | None = []
    groups: list[OffsetFetchRequestGroup] = []
    require_stable: bool = False


OffsetFetchRequestTopic.SPEC = struct_spec(
    OffsetFetchRequestTopic,
    (6, MAX),
    Field("name", STRING, (0, 7)),
    Field("partition_indexes", array_of(INT32), (0, 7)),
)

OffsetFetchRequestTopics.SPEC = struct_spec(
    OffsetFetchRequestTopics,
    (6, MAX),
    Field("name", STRING, (8, 9)),
    Field("topic_id", UUID, (10, MAX)),
    Field("partition_indexes", array_of(INT32), (8, MAX)),
)

OffsetFetchRequestGroup.SPEC = struct_spec(
    OffsetFetchRequestGroup,
    (6, MAX),
    Field("group_id", STRING, (8, MAX)),
    Field("member_id", STRING, (9, MAX), nullable=(9, MAX)),
    Field("member_epoch", INT32, (9, MAX)),
    Field("topics", array_of(struct_of(OffsetFetchRequestTopics)), (8, MAX), nullable=(8, MAX)),
)

OffsetFetchRequest.SPEC = struct_spec(
    OffsetFetchRequest,
    (6, MAX),
    Field("group_id", STRING, (0, 7)),
    Field("topics", array_of(struct_of(OffsetFetchRequestTopic)), (0, 7), nullable=(2, 7)),
    Field("groups", array_of(struct_of(OffsetFetchRequestGroup)), (8, MAX)),
    Field("require_stable", BOOL, (7, MAX)),
)

API_KEY = 9
VERSIONS = (1, 10)

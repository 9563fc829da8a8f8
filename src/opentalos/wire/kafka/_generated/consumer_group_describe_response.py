"""Generated from idl/kafka/ConsumerGroupDescribeResponse.json by scripts/generate_kafka.py."""

from __future__ import annotations

from msgspec import field

from opentalos.wire.kafka.spec import (
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


class TopicPartitions(KafkaStruct, kw_only=True):
    """ConsumerGroupDescribeResponse.json: TopicPartitions."""

    topic_id: bytes = bytes(16)
    topic_name: str = ""
    partitions: list[int] = []


class Assignment(KafkaStruct, kw_only=True):
    """ConsumerGroupDescribeResponse.json: Assignment."""

    topic_partitions: list[TopicPartitions] = []


class Member(KafkaStruct, kw_only=True):
    """ConsumerGroupDescribeResponse.json: Member."""

    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    subscribed_topic_regex: str | None = None
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    member_type: int = -1


class DescribedGroup(KafkaStruct, kw_only=True):
    """ConsumerGroupDescribeResponse.json: DescribedGroup."""

    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: list[Member] = []
    authorized_operations: int = -2147483648


class ConsumerGroupDescribeResponse(KafkaStruct, kw_only=True):
    """ConsumerGroupDescribeResponse.json: ConsumerGroupDescribeResponse."""

    throttle_time_ms: int = 0
    groups: list[DescribedGroup] = []


TopicPartitions.SPEC = struct_spec(
    TopicPartitions,
    (0, MAX),
    Field("topic_id", UUID, (0, MAX)),
    Field("topic_name", STRING, (0, MAX)),
    Field("partitions", array_of(INT32), (0, MAX)),
)

Assignment.SPEC = struct_spec(
    Assignment,
    (0, MAX),
    Field("topic_partitions", array_of(struct_of(TopicPartitions)), (0, MAX)),
)

Member.SPEC = struct_spec(
    Member,
    (0, MAX),
    Field("member_id", STRING, (0, MAX)),
    Field("instance_id", STRING, (0, MAX), nullable=(0, MAX)),
    Field("rack_id", STRING, (0, MAX), nullable=(0, MAX)),
    Field("member_epoch", INT32, (0, MAX)),
    Field("client_id", STRING, (0, MAX)),
    Field("client_host", STRING, (0, MAX)),
    Field("subscribed_topic_names", array_of(STRING), (0, MAX)),
    Field("subscribed_topic_regex", STRING, (0, MAX), nullable=(0, MAX)),
    Field("assignment", struct_of(Assignment), (0, MAX)),
    Field("target_assignment", struct_of(Assignment), (0, MAX)),
    Field("member_type", INT8, (1, MAX)),
)

DescribedGroup.SPEC = struct_spec(
    DescribedGroup,
    (0, MAX),
    Field("error_code", INT16, (0, MAX)),
    Field("error_message", STRING, (0, MAX), nullable=(0, MAX)),
    Field("group_id", STRING, (0, MAX)),
    Field("group_state", STRING, (0, MAX)),
    Field("group_epoch", INT32, (0, MAX)),
    Field("assignment_epoch", INT32, (0, MAX)),
    Field("assignor_name", STRING, (0, MAX)),
    Field("members", array_of(struct_of(Member)), (0, MAX)),
    Field("authorized_operations", INT32, (0, MAX)),
)

ConsumerGroupDescribeResponse.SPEC = struct_spec(
    ConsumerGroupDescribeResponse,
    (0, MAX),
    Field("throttle_time_ms", INT32, (0, MAX)),
    Field("groups", array_of(struct_of(DescribedGroup)), (0, MAX)),
)

API_KEY = 69
VERSIONS = (0, 1)

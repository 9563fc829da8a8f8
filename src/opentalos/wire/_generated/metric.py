"""Generated from idl/metric.thrift by scripts/generate_thrift.py; do not edit."""

from __future__ import annotations


from opentalos.wire._generated.common import (
    GalaxyTalosException,
    TALOS_BASE_SERVICE,
)
from opentalos.wire._generated.message import (
    GetDataPreviewRequest,
    GetDataPreviewResponse,
)
from opentalos.wire._generated.topic import (
    ListTopicsInfoResponse,
    TopicTalosResourceName,
)
from opentalos.wire.thrift.spec import (
    I32,
    I64,
    STRING,
    Field,
    MethodSpec,
    ServiceSpec,
    ThriftStruct,
    list_of,
    map_of,
    set_of,
    struct_of,
    struct_spec,
)


class PartitionConsumeUnit(ThriftStruct, kw_only=True):
    """metric.thrift: PartitionConsumeUnit."""

    partitionId: int
    ipAddr: str
    consumerCommitOffset: int
    consumerOffsetLag: int


class ConsumerGroupAndTopic(ThriftStruct, kw_only=True):
    """metric.thrift: ConsumerGroupAndTopic."""

    consumerGroupName: str
    topicTalosResourceName: TopicTalosResourceName


class QueryConsumerGroupRequest(ThriftStruct, kw_only=True):
    """metric.thrift: QueryConsumerGroupRequest."""

    topicTalosResourceName: TopicTalosResourceName


class QueryConsumerGroupResponse(ThriftStruct, kw_only=True):
    """metric.thrift: QueryConsumerGroupResponse."""

    consumerGroupList: set[str]


class GetTopicConsumeUnitRequest(ThriftStruct, kw_only=True):
    """metric.thrift: GetTopicConsumeUnitRequest."""

    consumerGroupAndTopic: ConsumerGroupAndTopic


class GetTopicConsumeUnitResponse(ThriftStruct, kw_only=True):
    """metric.thrift: GetTopicConsumeUnitResponse."""

    partitionConsumeUnitList: list[PartitionConsumeUnit]


class QueryTopicConsumeUnitRequest(ThriftStruct, kw_only=True):
    """metric.thrift: QueryTopicConsumeUnitRequest."""

    topicTalosResourceName: TopicTalosResourceName


class QueryTopicConsumeUnitResponse(ThriftStruct, kw_only=True):
    """metric.thrift: QueryTopicConsumeUnitResponse."""

    topicConsumeUnitMap: dict[str, list[PartitionConsumeUnit]]


PartitionConsumeUnit.SPEC = struct_spec(
    PartitionConsumeUnit,
    Field(1, "partitionId", I32, required=True),
    Field(2, "ipAddr", STRING, required=True),
    Field(3, "consumerCommitOffset", I64, required=True),
    Field(4, "consumerOffsetLag", I64, required=True),
)
ConsumerGroupAndTopic.SPEC = struct_spec(
    ConsumerGroupAndTopic,
    Field(1, "consumerGroupName", STRING, required=True),
    Field(2, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
)
QueryConsumerGroupRequest.SPEC = struct_spec(
    QueryConsumerGroupRequest,
    Field(1, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
)
QueryConsumerGroupResponse.SPEC = struct_spec(
    QueryConsumerGroupResponse,
    Field(1, "consumerGroupList", set_of(STRING), required=True),
)
GetTopicConsumeUnitRequest.SPEC = struct_spec(
    GetTopicConsumeUnitRequest,
    Field(1, "consumerGroupAndTopic", struct_of(ConsumerGroupAndTopic), required=True),
)
GetTopicConsumeUnitResponse.SPEC = struct_spec(
    GetTopicConsumeUnitResponse,
    Field(1, "partitionConsumeUnitList", list_of(struct_of(PartitionConsumeUnit)), required=True),
)
QueryTopicConsumeUnitRequest.SPEC = struct_spec(
    QueryTopicConsumeUnitRequest,
    Field(1, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
)
QueryTopicConsumeUnitResponse.SPEC = struct_spec(
    QueryTopicConsumeUnitResponse,
    Field(1, "topicConsumeUnitMap", map_of(STRING, list_of(struct_of(PartitionConsumeUnit))), required=True),
)

METRIC_SERVICE = ServiceSpec(
    "MetricService",
    "/v1/api/metric",
    {
        **TALOS_BASE_SERVICE.methods,
        "listTopics": MethodSpec(
            "listTopics",
            (),
            struct_of(ListTopicsInfoResponse),
            GalaxyTalosException,
        ),
        "queryConsumerGroup": MethodSpec(
            "queryConsumerGroup",
            (Field(1, "request", struct_of(QueryConsumerGroupRequest)),),
            struct_of(QueryConsumerGroupResponse),
            GalaxyTalosException,
        ),
        "getTopicConsumeUnit": MethodSpec(
            "getTopicConsumeUnit",
            (Field(1, "request", struct_of(GetTopicConsumeUnitRequest)),),
            struct_of(GetTopicConsumeUnitResponse),
            GalaxyTalosException,
        ),
        "queryTopicConsumeUnit": MethodSpec(
            "queryTopicConsumeUnit",
            (Field(1, "request", struct_of(QueryTopicConsumeUnitRequest)),),
            struct_of(QueryTopicConsumeUnitResponse),
            GalaxyTalosException,
        ),
        "getDataPreview": MethodSpec(
            "getDataPreview",
            (Field(1, "request", struct_of(GetDataPreviewRequest)),),
            struct_of(GetDataPreviewResponse),
            GalaxyTalosException,
        ),
    },
)

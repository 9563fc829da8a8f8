"""Generated from idl/topic.thrift by scripts/generate_thrift.py; do not edit."""

from __future__ import annotations

from enum import IntEnum

from opentalos.wire._generated.authorization import (
    Grantee,
)
from opentalos.wire._generated.common import (
    GalaxyTalosException,
    TALOS_BASE_SERVICE,
)
from opentalos.wire._generated.quota import (
    BaseQuota,
)
from opentalos.wire.thrift.spec import (
    I32,
    I64,
    STRING,
    Field,
    MethodSpec,
    ServiceSpec,
    ThriftStruct,
    enum_of,
    list_of,
    map_of,
    struct_of,
    struct_spec,
)


class TopicStatus(IntEnum):
    """topic.thrift: enum TopicStatus."""

    CREATING = 0
    ACTIVE = 1
    DELETING = 2
    DELETED = 3


class TopicGroupType(IntEnum):
    """topic.thrift: enum TopicGroupType."""

    TOPIC_PATTERN = 0
    TOPIC_SET = 1


class Permission(IntEnum):
    """topic.thrift: enum Permission."""

    NONE = 0
    PUT_MESSAGE = 1
    GET_MESSAGE = 2
    FULL_MESSAGE_CONTROL = 3
    DESCRIBE_TOPIC = 4
    PUT_MESSAGE_AND_DESCRIBE_TOPIC = 5
    GET_MESSAGE_AND_DESCRIBE_TOPIC = 6
    TOPIC_READ_AND_MESSAGE_FULL_CONTROL = 7
    CHANGE_TOPIC = 8
    FULL_TOPIC_CONTROL = 12
    FULL_CONTROL = 15
    CHANGE_PERMISSION = 16
    ADMIN = 31


class TopicTalosResourceName(  # type: ignore[misc]
    ThriftStruct, frozen=True, kw_only=True
):
    """topic.thrift: TopicTalosResourceName."""

    topicTalosResourceName: str


class TopicAndPartition(  # type: ignore[misc]
    ThriftStruct, frozen=True, kw_only=True
):
    """topic.thrift: TopicAndPartition."""

    topicName: str
    topicTalosResourceName: TopicTalosResourceName
    partitionId: int


class TopicOwnerInfo(ThriftStruct, kw_only=True):
    """topic.thrift: TopicOwnerInfo."""

    chargeId: str | None = None
    ownerName: str | None = None


class TopicInfo(ThriftStruct, kw_only=True):
    """topic.thrift: TopicInfo."""

    topicName: str
    topicTalosResourceName: TopicTalosResourceName
    ownerId: str
    ownerInfo: TopicOwnerInfo | None = None


class TopicAttribute(ThriftStruct, kw_only=True):
    """topic.thrift: TopicAttribute."""

    partitionNumber: int | None = None
    messageRetentionSecs: int | None = None
    attributes: dict[str, str] | None = None
    oldPartitionNumber: int | None = None


class PartitionState(ThriftStruct, kw_only=True):
    """topic.thrift: PartitionState."""

    partitionId: int
    startOffset: int
    lastestOffset: int
    messageNumber: int
    messageBytes: int
    totalMessageNumber: int | None = None
    totalMessageBytes: int | None = None


class TopicState(ThriftStruct, kw_only=True):
    """topic.thrift: TopicState."""

    createTimestamp: int
    topicStatus: TopicStatus | int
    messageNumber: int
    messageBytes: int
    partitionStates: list[PartitionState]
    totalMessageNumber: int | None = None
    totalMessageBytes: int | None = None


class DescribeTopicResponse(ThriftStruct, kw_only=True):
    """topic.thrift: DescribeTopicResponse."""

    topicInfo: TopicInfo
    topicAttribute: TopicAttribute
    topicState: TopicState
    topicQuota: BaseQuota
    aclMap: dict[str, int]


class SourceTopicInfo(ThriftStruct, kw_only=True):
    """topic.thrift: SourceTopicInfo."""

    sourceCluster: str
    topicName: str
    sourceTopic: DescribeTopicResponse | None = None


class Topic(ThriftStruct, kw_only=True):
    """topic.thrift: Topic."""

    topicInfo: TopicInfo
    topicAttribute: TopicAttribute
    topicState: TopicState
    topicQuota: BaseQuota | None = None
    topicAcl: dict[str, int] | None = None


class TopicGroup(ThriftStruct, kw_only=True):
    """topic.thrift: TopicGroup."""

    topicGroupName: str
    ownerId: str
    type: TopicGroupType | int
    topicPattern: str | None = None
    topicSet: list[str] | None = None
    exclusiveTopics: list[str] | None = None


class CreateTopicRequest(ThriftStruct, kw_only=True):
    """topic.thrift: CreateTopicRequest."""

    topicName: str
    topicAttribute: TopicAttribute
    topicQuota: BaseQuota | None = None
    aclMap: dict[Grantee, Permission | int] | None = None
    ownerName: str | None = None


class CreateReplicationTopicRequest(ThriftStruct, kw_only=True):
    """topic.thrift: CreateReplicationTopicRequest."""

    topicName: str
    sourceTopicInfoList: list[SourceTopicInfo]


class CreateTopicResponse(ThriftStruct, kw_only=True):
    """topic.thrift: CreateTopicResponse."""

    topicInfo: TopicInfo


class DeleteTopicRequest(ThriftStruct, kw_only=True):
    """topic.thrift: DeleteTopicRequest."""

    topicTalosResourceName: TopicTalosResourceName


class ChangeTopicAttributeRequest(ThriftStruct, kw_only=True):
    """topic.thrift: ChangeTopicAttributeRequest."""

    topicTalosResourceName: TopicTalosResourceName
    topicAttribute: TopicAttribute


class DeleteTopicAttributeRequest(ThriftStruct, kw_only=True):
    """topic.thrift: DeleteTopicAttributeRequest."""

    topicTalosResourceName: TopicTalosResourceName
    topicAttributeKey: str


class ChangeTopicOwnerInfoRequest(ThriftStruct, kw_only=True):
    """topic.thrift: ChangeTopicOwnerInfoRequest."""

    topicTalosResourceName: TopicTalosResourceName
    ownerInfo: TopicOwnerInfo


class ChangeReplicationTopicSourceInfoRequest(ThriftStruct, kw_only=True):
    """topic.thrift: ChangeReplicationTopicSourceInfoRequest."""

    topicTalosResourceName: TopicTalosResourceName
    sourceTopicInfoList: list[SourceTopicInfo]


class DescribeTopicRequest(ThriftStruct, kw_only=True):
    """topic.thrift: DescribeTopicRequest."""

    topicName: str


class GetDescribeInfoRequest(ThriftStruct, kw_only=True):
    """topic.thrift: GetDescribeInfoRequest."""

    topicName: str


class GetTopicAttributeRequest(ThriftStruct, kw_only=True):
    """topic.thrift: GetTopicAttributeRequest."""

    topicName: str


class AddSubResourceNameRequest(ThriftStruct, kw_only=True):
    """topic.thrift: AddSubResourceNameRequest."""

    topicTalosResourceName: TopicTalosResourceName
    orgId: str
    adminTeamId: str


class CreateTopicGroupRequest(ThriftStruct, kw_only=True):
    """topic.thrift: CreateTopicGroupRequest."""

    topicGroup: TopicGroup


class CreateTopicGroupResponse(ThriftStruct, kw_only=True):
    """topic.thrift: CreateTopicGroupResponse."""

    topicGroup: TopicGroup


class DescribeTopicGroupRequest(ThriftStruct, kw_only=True):
    """topic.thrift: DescribeTopicGroupRequest."""

    topicGroupName: str


class DescribeTopicGroupResponse(ThriftStruct, kw_only=True):
    """topic.thrift: DescribeTopicGroupResponse."""

    topicGroup: TopicGroup


class DeleteTopicGroupRequest(ThriftStruct, kw_only=True):
    """topic.thrift: DeleteTopicGroupRequest."""

    topicGroupName: str


class UpdateTopicGroupRequest(ThriftStruct, kw_only=True):
    """topic.thrift: UpdateTopicGroupRequest."""

    topicGroup: TopicGroup


class ListTopicGroupResponse(ThriftStruct, kw_only=True):
    """topic.thrift: ListTopicGroupResponse."""

    topicGroupList: list[TopicGroup]


class LookupTopicsRequest(ThriftStruct, kw_only=True):
    """topic.thrift: LookupTopicsRequest."""

    topicGroup: str


class LookupTopicsResponse(ThriftStruct, kw_only=True):
    """topic.thrift: LookupTopicsResponse."""

    topics: dict[str, int]


class MatchTopicsRequest(ThriftStruct, kw_only=True):
    """topic.thrift: MatchTopicsRequest."""

    topicPattern: str
    teamId: str


class MatchTopicsResponse(ThriftStruct, kw_only=True):
    """topic.thrift: MatchTopicsResponse."""

    topics: list[str]


class GetDescribeInfoResponse(ThriftStruct, kw_only=True):
    """topic.thrift: GetDescribeInfoResponse."""

    topicTalosResourceName: TopicTalosResourceName
    partitionNumber: int


class GetTopicAttributeResponse(ThriftStruct, kw_only=True):
    """topic.thrift: GetTopicAttributeResponse."""

    topicTalosResourceName: TopicTalosResourceName
    topicAttribute: TopicAttribute


class ListTopicsResponse(ThriftStruct, kw_only=True):
    """topic.thrift: ListTopicsResponse."""

    topicInfos: list[TopicInfo]


class ListTopicsInfoResponse(ThriftStruct, kw_only=True):
    """topic.thrift: ListTopicsInfoResponse."""

    topicList: list[Topic]


class SetTopicQuotaRequest(ThriftStruct, kw_only=True):
    """topic.thrift: SetTopicQuotaRequest."""

    topicResourceName: TopicTalosResourceName
    topicQuota: BaseQuota


class QueryTopicQuotaRequest(ThriftStruct, kw_only=True):
    """topic.thrift: QueryTopicQuotaRequest."""

    topicResourceName: TopicTalosResourceName


class QueryTopicQuotaResponse(ThriftStruct, kw_only=True):
    """topic.thrift: QueryTopicQuotaResponse."""

    topicQuota: BaseQuota


class DeleteTopicQuotaRequest(ThriftStruct, kw_only=True):
    """topic.thrift: DeleteTopicQuotaRequest."""

    topicResourceName: TopicTalosResourceName


class SetPermissionRequest(ThriftStruct, kw_only=True):
    """topic.thrift: SetPermissionRequest."""

    topicResourceName: TopicTalosResourceName
    grant: Grantee
    permission: Permission | int | None = None


class RevokePermissionRequest(ThriftStruct, kw_only=True):
    """topic.thrift: RevokePermissionRequest."""

    topicResourceName: TopicTalosResourceName
    grant: Grantee


class ListPermissionRequest(ThriftStruct, kw_only=True):
    """topic.thrift: ListPermissionRequest."""

    topicResourceName: TopicTalosResourceName


class ListPermissionResponse(ThriftStruct, kw_only=True):
    """topic.thrift: ListPermissionResponse."""

    permissions: dict[str, int]


class GetPermissionRequest(ThriftStruct, kw_only=True):
    """topic.thrift: GetPermissionRequest."""

    topicResourceName: TopicTalosResourceName
    grant: Grantee


class GetPermissionResponse(ThriftStruct, kw_only=True):
    """topic.thrift: GetPermissionResponse."""

    permission: int


TopicTalosResourceName.SPEC = struct_spec(
    TopicTalosResourceName,
    Field(1, "topicTalosResourceName", STRING, required=True),
)
TopicAndPartition.SPEC = struct_spec(
    TopicAndPartition,
    Field(1, "topicName", STRING, required=True),
    Field(2, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(3, "partitionId", I32, required=True),
)
TopicOwnerInfo.SPEC = struct_spec(
    TopicOwnerInfo,
    Field(1, "chargeId", STRING),
    Field(2, "ownerName", STRING),
)
TopicInfo.SPEC = struct_spec(
    TopicInfo,
    Field(1, "topicName", STRING, required=True),
    Field(2, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(3, "ownerId", STRING, required=True),
    Field(4, "ownerInfo", struct_of(TopicOwnerInfo)),
)
TopicAttribute.SPEC = struct_spec(
    TopicAttribute,
    Field(1, "partitionNumber", I32),
    Field(2, "messageRetentionSecs", I32),
    Field(3, "attributes", map_of(STRING, STRING)),
    Field(4, "oldPartitionNumber", I32),
)
PartitionState.SPEC = struct_spec(
    PartitionState,
    Field(1, "partitionId", I32, required=True),
    Field(2, "startOffset", I64, required=True),
    Field(3, "lastestOffset", I64, required=True),
    Field(4, "messageNumber", I64, required=True),
    Field(5, "messageBytes", I64, required=True),
    Field(6, "totalMessageNumber", I64),
    Field(7, "totalMessageBytes", I64),
)
TopicState.SPEC = struct_spec(
    TopicState,
    Field(1, "createTimestamp", I64, required=True),
    Field(2, "topicStatus", enum_of(TopicStatus), required=True),
    Field(3, "messageNumber", I64, required=True),
    Field(4, "messageBytes", I64, required=True),
    Field(5, "partitionStates", list_of(struct_of(PartitionState)), required=True),
    Field(6, "totalMessageNumber", I64),
    Field(7, "totalMessageBytes", I64),
)
DescribeTopicResponse.SPEC = struct_spec(
    DescribeTopicResponse,
    Field(1, "topicInfo", struct_of(TopicInfo), required=True),
    Field(2, "topicAttribute", struct_of(TopicAttribute), required=True),
    Field(3, "topicState", struct_of(TopicState), required=True),
    Field(4, "topicQuota", struct_of(BaseQuota), required=True),
    Field(5, "aclMap", map_of(STRING, I32), required=True),
)
SourceTopicInfo.SPEC = struct_spec(
    SourceTopicInfo,
    Field(1, "sourceCluster", STRING, required=True),
    Field(2, "topicName", STRING, required=True),
    Field(3, "sourceTopic", struct_of(DescribeTopicResponse)),
)
Topic.SPEC = struct_spec(
    Topic,
    Field(1, "topicInfo", struct_of(TopicInfo), required=True),
    Field(2, "topicAttribute", struct_of(TopicAttribute), required=True),
    Field(3, "topicState", struct_of(TopicState), required=True),
    Field(4, "topicQuota", struct_of(BaseQuota)),
    Field(5, "topicAcl", map_of(STRING, I32)),
)
TopicGroup.SPEC = struct_spec(
    TopicGroup,
    Field(1, "topicGroupName", STRING, required=True),
    Field(2, "ownerId", STRING, required=True),
    Field(3, "type", enum_of(TopicGroupType), required=True),
    Field(4, "topicPattern", STRING),
    Field(5, "topicSet", list_of(STRING)),
    Field(6, "exclusiveTopics", list_of(STRING)),
)
CreateTopicRequest.SPEC = struct_spec(
    CreateTopicRequest,
    Field(1, "topicName", STRING, required=True),
    Field(2, "topicAttribute", struct_of(TopicAttribute), required=True),
    Field(3, "topicQuota", struct_of(BaseQuota)),
    Field(4, "aclMap", map_of(struct_of(Grantee), enum_of(Permission))),
    Field(5, "ownerName", STRING),
)
CreateReplicationTopicRequest.SPEC = struct_spec(
    CreateReplicationTopicRequest,
    Field(1, "topicName", STRING, required=True),
    Field(2, "sourceTopicInfoList", list_of(struct_of(SourceTopicInfo)), required=True),
)
CreateTopicResponse.SPEC = struct_spec(
    CreateTopicResponse,
    Field(1, "topicInfo", struct_of(TopicInfo), required=True),
)
DeleteTopicRequest.SPEC = struct_spec(
    DeleteTopicRequest,
    Field(1, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
)
ChangeTopicAttributeRequest.SPEC = struct_spec(
    ChangeTopicAttributeRequest,
    Field(1, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(2, "topicAttribute", struct_of(TopicAttribute), required=True),
)
DeleteTopicAttributeRequest.SPEC = struct_spec(
    DeleteTopicAttributeRequest,
    Field(1, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(2, "topicAttributeKey", STRING, required=True),
)
ChangeTopicOwnerInfoRequest.SPEC = struct_spec(
    ChangeTopicOwnerInfoRequest,
    Field(1, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(2, "ownerInfo", struct_of(TopicOwnerInfo), required=True),
)
ChangeReplicationTopicSourceInfoRequest.SPEC = struct_spec(
    ChangeReplicationTopicSourceInfoRequest,
    Field(1, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(2, "sourceTopicInfoList", list_of(struct_of(SourceTopicInfo)), required=True),
)
DescribeTopicRequest.SPEC = struct_spec(
    DescribeTopicRequest,
    Field(1, "topicName", STRING, required=True),
)
GetDescribeInfoRequest.SPEC = struct_spec(
    GetDescribeInfoRequest,
    Field(1, "topicName", STRING, required=True),
)
GetTopicAttributeRequest.SPEC = struct_spec(
    GetTopicAttributeRequest,
    Field(1, "topicName", STRING, required=True),
)
AddSubResourceNameRequest.SPEC = struct_spec(
    AddSubResourceNameRequest,
    Field(1, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(2, "orgId", STRING, required=True),
    Field(3, "adminTeamId", STRING, required=True),
)
CreateTopicGroupRequest.SPEC = struct_spec(
    CreateTopicGroupRequest,
    Field(1, "topicGroup", struct_of(TopicGroup), required=True),
)
CreateTopicGroupResponse.SPEC = struct_spec(
    CreateTopicGroupResponse,
    Field(1, "topicGroup", struct_of(TopicGroup), required=True),
)
DescribeTopicGroupRequest.SPEC = struct_spec(
    DescribeTopicGroupRequest,
    Field(1, "topicGroupName", STRING, required=True),
)
DescribeTopicGroupResponse.SPEC = struct_spec(
    DescribeTopicGroupResponse,
    Field(1, "topicGroup", struct_of(TopicGroup), required=True),
)
DeleteTopicGroupRequest.SPEC = struct_spec(
    DeleteTopicGroupRequest,
    Field(1, "topicGroupName", STRING, required=True),
)
UpdateTopicGroupRequest.SPEC = struct_spec(
    UpdateTopicGroupRequest,
    Field(1, "topicGroup", struct_of(TopicGroup), required=True),
)
ListTopicGroupResponse.SPEC = struct_spec(
    ListTopicGroupResponse,
    Field(1, "topicGroupList", list_of(struct_of(TopicGroup)), required=True),
)
LookupTopicsRequest.SPEC = struct_spec(
    LookupTopicsRequest,
    Field(1, "topicGroup", STRING, required=True),
)
LookupTopicsResponse.SPEC = struct_spec(
    LookupTopicsResponse,
    Field(1, "topics", map_of(STRING, I32), required=True),
)
MatchTopicsRequest.SPEC = struct_spec(
    MatchTopicsRequest,
    Field(1, "topicPattern", STRING, required=True),
    Field(2, "teamId", STRING, required=True),
)
MatchTopicsResponse.SPEC = struct_spec(
    MatchTopicsResponse,
    Field(1, "topics", list_of(STRING), required=True),
)
GetDescribeInfoResponse.SPEC = struct_spec(
    GetDescribeInfoResponse,
    Field(1, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(2, "partitionNumber", I32, required=True),
)
GetTopicAttributeResponse.SPEC = struct_spec(
    GetTopicAttributeResponse,
    Field(1, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(2, "topicAttribute", struct_of(TopicAttribute), required=True),
)
ListTopicsResponse.SPEC = struct_spec(
    ListTopicsResponse,
    Field(1, "topicInfos", list_of(struct_of(TopicInfo)), required=True),
)
ListTopicsInfoResponse.SPEC = struct_spec(
    ListTopicsInfoResponse,
    Field(1, "topicList", list_of(struct_of(Topic)), required=True),
)
SetTopicQuotaRequest.SPEC = struct_spec(
    SetTopicQuotaRequest,
    Field(1, "topicResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(2, "topicQuota", struct_of(BaseQuota), required=True),
)
QueryTopicQuotaRequest.SPEC = struct_spec(
    QueryTopicQuotaRequest,
    Field(1, "topicResourceName", struct_of(TopicTalosResourceName), required=True),
)
QueryTopicQuotaResponse.SPEC = struct_spec(
    QueryTopicQuotaResponse,
    Field(1, "topicQuota", struct_of(BaseQuota), required=True),
)
DeleteTopicQuotaRequest.SPEC = struct_spec(
    DeleteTopicQuotaRequest,
    Field(1, "topicResourceName", struct_of(TopicTalosResourceName), required=True),
)
SetPermissionRequest.SPEC = struct_spec(
    SetPermissionRequest,
    Field(1, "topicResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(2, "grant", struct_of(Grantee), required=True),
    Field(3, "permission", enum_of(Permission)),
)
RevokePermissionRequest.SPEC = struct_spec(
    RevokePermissionRequest,
    Field(1, "topicResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(2, "grant", struct_of(Grantee), required=True),
)
ListPermissionRequest.SPEC = struct_spec(
    ListPermissionRequest,
    Field(1, "topicResourceName", struct_of(TopicTalosResourceName), required=True),
)
ListPermissionResponse.SPEC = struct_spec(
    ListPermissionResponse,
    Field(1, "permissions", map_of(STRING, I32), required=True),
)
GetPermissionRequest.SPEC = struct_spec(
    GetPermissionRequest,
    Field(1, "topicResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(2, "grant", struct_of(Grantee), required=True),
)
GetPermissionResponse.SPEC = struct_spec(
    GetPermissionResponse,
    Field(1, "permission", I32, required=True),
)

TOPIC_SERVICE = ServiceSpec(
    "TopicService",
    "/v1/api/topic",
    {
        **TALOS_BASE_SERVICE.methods,
        "createTopic": MethodSpec(
            "createTopic",
            (Field(1, "request", struct_of(CreateTopicRequest)),),
            struct_of(CreateTopicResponse),
            GalaxyTalosException,
        ),
        "createReplicationTopic": MethodSpec(
            "createReplicationTopic",
            (Field(1, "request", struct_of(CreateReplicationTopicRequest)),),
            struct_of(CreateTopicResponse),
            GalaxyTalosException,
        ),
        "createTopicGroup": MethodSpec(
            "createTopicGroup",
            (Field(1, "request", struct_of(CreateTopicGroupRequest)),),
            struct_of(CreateTopicGroupResponse),
            GalaxyTalosException,
        ),
        "describeTopicGroup": MethodSpec(
            "describeTopicGroup",
            (Field(1, "request", struct_of(DescribeTopicGroupRequest)),),
            struct_of(DescribeTopicGroupResponse),
            GalaxyTalosException,
        ),
        "deleteTopicGroup": MethodSpec(
            "deleteTopicGroup",
            (Field(1, "request", struct_of(DeleteTopicGroupRequest)),),
            None,
            GalaxyTalosException,
        ),
        "listTopicGroup": MethodSpec(
            "listTopicGroup",
            (),
            struct_of(ListTopicGroupResponse),
            GalaxyTalosException,
        ),
        "updateTopicGroup": MethodSpec(
            "updateTopicGroup",
            (Field(1, "request", struct_of(UpdateTopicGroupRequest)),),
            None,
            GalaxyTalosException,
        ),
        "deleteTopic": MethodSpec(
            "deleteTopic",
            (Field(1, "request", struct_of(DeleteTopicRequest)),),
            None,
            GalaxyTalosException,
        ),
        "lookupTopics": MethodSpec(
            "lookupTopics",
            (Field(1, "request", struct_of(LookupTopicsRequest)),),
            struct_of(LookupTopicsResponse),
            GalaxyTalosException,
        ),
        "matchTopics": MethodSpec(
            "matchTopics",
            (Field(1, "request", struct_of(MatchTopicsRequest)),),
            struct_of(MatchTopicsResponse),
            GalaxyTalosException,
        ),
        "changeTopicAttribute": MethodSpec(
            "changeTopicAttribute",
            (Field(1, "request", struct_of(ChangeTopicAttributeRequest)),),
            None,
            GalaxyTalosException,
        ),
        "deleteTopicAttribute": MethodSpec(
            "deleteTopicAttribute",
            (Field(1, "request", struct_of(DeleteTopicAttributeRequest)),),
            None,
            GalaxyTalosException,
        ),
        "changeTopicOwnerInfo": MethodSpec(
            "changeTopicOwnerInfo",
            (Field(1, "request", struct_of(ChangeTopicOwnerInfoRequest)),),
            None,
            GalaxyTalosException,
        ),
        "changeReplicationTopicSourceInfo": MethodSpec(
            "changeReplicationTopicSourceInfo",
            (Field(1, "request", struct_of(ChangeReplicationTopicSourceInfoRequest)),),
            None,
            GalaxyTalosException,
        ),
        "describeTopic": MethodSpec(
            "describeTopic",
            (Field(1, "request", struct_of(DescribeTopicRequest)),),
            struct_of(DescribeTopicResponse),
            GalaxyTalosException,
        ),
        "getDescribeInfo": MethodSpec(
            "getDescribeInfo",
            (Field(1, "request", struct_of(GetDescribeInfoRequest)),),
            struct_of(GetDescribeInfoResponse),
            GalaxyTalosException,
        ),
        "getTopicAttribute": MethodSpec(
            "getTopicAttribute",
            (Field(1, "request", struct_of(GetTopicAttributeRequest)),),
            struct_of(GetTopicAttributeResponse),
            GalaxyTalosException,
        ),
        "listTopicsInfo": MethodSpec(
            "listTopicsInfo",
            (),
            struct_of(ListTopicsInfoResponse),
            GalaxyTalosException,
        ),
        "listTopics": MethodSpec(
            "listTopics",
            (),
            struct_of(ListTopicsResponse),
            GalaxyTalosException,
        ),
        "getBindTopics": MethodSpec(
            "getBindTopics",
            (),
            struct_of(ListTopicsResponse),
            GalaxyTalosException,
        ),
        "setTopicQuota": MethodSpec(
            "setTopicQuota",
            (Field(1, "request", struct_of(SetTopicQuotaRequest)),),
            None,
            GalaxyTalosException,
        ),
        "queryTopicQuota": MethodSpec(
            "queryTopicQuota",
            (Field(1, "request", struct_of(QueryTopicQuotaRequest)),),
            struct_of(QueryTopicQuotaResponse),
            GalaxyTalosException,
        ),
        "deleteTopicQuota": MethodSpec(
            "deleteTopicQuota",
            (Field(1, "request", struct_of(DeleteTopicQuotaRequest)),),
            None,
            GalaxyTalosException,
        ),
        "setPermission": MethodSpec(
            "setPermission",
            (Field(1, "request", struct_of(SetPermissionRequest)),),
            None,
            GalaxyTalosException,
        ),
        "revokePermission": MethodSpec(
            "revokePermission",
            (Field(1, "request", struct_of(RevokePermissionRequest)),),
            None,
            GalaxyTalosException,
        ),
        "listPermission": MethodSpec(
            "listPermission",
            (Field(1, "request", struct_of(ListPermissionRequest)),),
            struct_of(ListPermissionResponse),
            GalaxyTalosException,
        ),
        "getPermission": MethodSpec(
            "getPermission",
            (Field(1, "request", struct_of(GetPermissionRequest)),),
            struct_of(GetPermissionResponse),
            GalaxyTalosException,
        ),
        "addSubResourceName": MethodSpec(
            "addSubResourceName",
            (Field(1, "request", struct_of(AddSubResourceNameRequest)),),
            None,
            GalaxyTalosException,
        ),
    },
)

"""Generated from idl/consumer.thrift by scripts/generate_thrift.py; do not edit."""

from __future__ import annotations


from opentalos.wire._generated.common import (
    GalaxyTalosException,
    TALOS_BASE_SERVICE,
)
from opentalos.wire._generated.topic import (
    TopicAndPartition,
    TopicTalosResourceName,
)
from opentalos.wire.thrift.spec import (
    BOOL,
    I32,
    I64,
    STRING,
    Field,
    MethodSpec,
    ServiceSpec,
    ThriftStruct,
    list_of,
    map_of,
    struct_of,
    struct_spec,
)


class ConsumeUnit(ThriftStruct, kw_only=True):
    """consumer.thrift: ConsumeUnit."""

    consumerGroup: str
    topicTalosResourceName: TopicTalosResourceName
    partitionIdList: list[int]
    workerId: str


class TopicsConsumeUnit(ThriftStruct, kw_only=True):
    """consumer.thrift: TopicsConsumeUnit."""

    consumerGroup: str
    topicPartitions: dict[str, list[int]]
    workerId: str
    topicGroup: str


class CheckPoint(ThriftStruct, kw_only=True):
    """consumer.thrift: CheckPoint."""

    consumerGroup: str
    topicAndPartition: TopicAndPartition
    msgOffset: int
    workerId: str
    lastCommitOffset: int | None = None


class LockPartitionRequest(ThriftStruct, kw_only=True):
    """consumer.thrift: LockPartitionRequest."""

    consumeUnit: ConsumeUnit


class LockPartitionResponse(ThriftStruct, kw_only=True):
    """consumer.thrift: LockPartitionResponse."""

    successPartitions: list[int]
    failedPartitions: list[int]


class CheckRegisterRequest(ThriftStruct, kw_only=True):
    """consumer.thrift: CheckRegisterRequest."""

    consumeUnit: ConsumeUnit


class CheckRegisterResponse(ThriftStruct, kw_only=True):
    """consumer.thrift: CheckRegisterResponse."""

    canRegister: bool


class LockWorkerRequest(ThriftStruct, kw_only=True):
    """consumer.thrift: LockWorkerRequest."""

    consumeUnit: ConsumeUnit


class LockWorkerResponse(ThriftStruct, kw_only=True):
    """consumer.thrift: LockWorkerResponse."""

    registerSuccess: bool


class TopicsLockWorkerRequest(ThriftStruct, kw_only=True):
    """consumer.thrift: TopicsLockWorkerRequest."""

    consumerGroup: str
    topics: list[TopicTalosResourceName]
    workerId: str
    topicGroup: str


class TopicsLockWorkerResponse(ThriftStruct, kw_only=True):
    """consumer.thrift: TopicsLockWorkerResponse."""

    registerSuccess: bool


class UnlockPartitionRequest(ThriftStruct, kw_only=True):
    """consumer.thrift: UnlockPartitionRequest."""

    consumeUnit: ConsumeUnit
    leaveGroup: bool | None = None


class RenewRequest(ThriftStruct, kw_only=True):
    """consumer.thrift: RenewRequest."""

    consumeUnit: ConsumeUnit


class RenewResponse(ThriftStruct, kw_only=True):
    """consumer.thrift: RenewResponse."""

    heartbeatSuccess: bool
    failedPartitionList: list[int]


class TopicsRenewRequest(ThriftStruct, kw_only=True):
    """consumer.thrift: TopicsRenewRequest."""

    consumeUnit: TopicsConsumeUnit


class TopicsRenewResponse(ThriftStruct, kw_only=True):
    """consumer.thrift: TopicsRenewResponse."""

    heartbeatSuccess: bool
    failedPartitionList: list[TopicAndPartition]


class UpdateOffsetRequest(ThriftStruct, kw_only=True):
    """consumer.thrift: UpdateOffsetRequest."""

    checkpoint: CheckPoint


class UpdateOffsetResponse(ThriftStruct, kw_only=True):
    """consumer.thrift: UpdateOffsetResponse."""

    success: bool


class QueryOffsetRequest(ThriftStruct, kw_only=True):
    """consumer.thrift: QueryOffsetRequest."""

    consumerGroup: str
    topicAndPartition: TopicAndPartition


class QueryOffsetResponse(ThriftStruct, kw_only=True):
    """consumer.thrift: QueryOffsetResponse."""

    msgOffset: int


class QueryWorkerRequest(ThriftStruct, kw_only=True):
    """consumer.thrift: QueryWorkerRequest."""

    consumerGroup: str
    topicTalosResourceName: TopicTalosResourceName
    waitMillis: int | None = None
    knownMark: int | None = None


class QueryWorkerResponse(ThriftStruct, kw_only=True):
    """consumer.thrift: QueryWorkerResponse."""

    workerMap: dict[str, list[int]]
    mark: int | None = None


class TopicsQueryWorkerRequest(ThriftStruct, kw_only=True):
    """consumer.thrift: TopicsQueryWorkerRequest."""

    consumerGroup: str
    topicTalosResourceNames: list[TopicTalosResourceName]
    topicGroup: str


class TopicsQueryWorkerResponse(ThriftStruct, kw_only=True):
    """consumer.thrift: TopicsQueryWorkerResponse."""

    workerMap: dict[str, list[TopicAndPartition]]


class ConsumerGroupAndPartition(  # type: ignore[misc]
    ThriftStruct, frozen=True, kw_only=True
):
    """consumer.thrift: ConsumerGroupAndPartition."""

    consumerGroupName: str
    topicTalosResourceName: TopicTalosResourceName
    partitionId: int


class QueryOrgOffsetRequest(ThriftStruct, kw_only=True):
    """consumer.thrift: QueryOrgOffsetRequest."""

    consumerGroupPrefix: str
    orgId: str


class QueryOrgOffsetResponse(ThriftStruct, kw_only=True):
    """consumer.thrift: QueryOrgOffsetResponse."""

    consumerGroupOffsetMap: dict[ConsumerGroupAndPartition, int]


class GetWorkerIdRequest(ThriftStruct, kw_only=True):
    """consumer.thrift: GetWorkerIdRequest."""

    topicAndPartition: TopicAndPartition
    consumerGroup: str


class GetWorkerIdResponse(ThriftStruct, kw_only=True):
    """consumer.thrift: GetWorkerIdResponse."""

    workerId: str


class DeleteConsumerGroupRequest(ThriftStruct, kw_only=True):
    """consumer.thrift: DeleteConsumerGroupRequest."""

    consumerGroup: str
    topicTalosResourceName: TopicTalosResourceName


ConsumeUnit.SPEC = struct_spec(
    ConsumeUnit,
    Field(1, "consumerGroup", STRING, required=True),
    Field(2, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(3, "partitionIdList", list_of(I32), required=True),
    Field(4, "workerId", STRING, required=True),
)
TopicsConsumeUnit.SPEC = struct_spec(
    TopicsConsumeUnit,
    Field(1, "consumerGroup", STRING, required=True),
    Field(2, "topicPartitions", map_of(STRING, list_of(I32)), required=True),
    Field(3, "workerId", STRING, required=True),
    Field(4, "topicGroup", STRING, required=True),
)
CheckPoint.SPEC = struct_spec(
    CheckPoint,
    Field(1, "consumerGroup", STRING, required=True),
    Field(2, "topicAndPartition", struct_of(TopicAndPartition), required=True),
    Field(3, "msgOffset", I64, required=True),
    Field(4, "workerId", STRING, required=True),
    Field(5, "lastCommitOffset", I64),
)
LockPartitionRequest.SPEC = struct_spec(
    LockPartitionRequest,
    Field(1, "consumeUnit", struct_of(ConsumeUnit), required=True),
)
LockPartitionResponse.SPEC = struct_spec(
    LockPartitionResponse,
    Field(1, "successPartitions", list_of(I32), required=True),
    Field(2, "failedPartitions", list_of(I32), required=True),
)
CheckRegisterRequest.SPEC = struct_spec(
    CheckRegisterRequest,
    Field(1, "consumeUnit", struct_of(ConsumeUnit), required=True),
)
CheckRegisterResponse.SPEC = struct_spec(
    CheckRegisterResponse,
    Field(1, "canRegister", BOOL, required=True),
)
LockWorkerRequest.SPEC = struct_spec(
    LockWorkerRequest,
    Field(1, "consumeUnit", struct_of(ConsumeUnit), required=True),
)
LockWorkerResponse.SPEC = struct_spec(
    LockWorkerResponse,
    Field(1, "registerSuccess", BOOL, required=True),
)
TopicsLockWorkerRequest.SPEC = struct_spec(
    TopicsLockWorkerRequest,
    Field(1, "consumerGroup", STRING, required=True),
    Field(2, "topics", list_of(struct_of(TopicTalosResourceName)), required=True),
    Field(3, "workerId", STRING, required=True),
    Field(4, "topicGroup", STRING, required=True),
)
TopicsLockWorkerResponse.SPEC = struct_spec(
    TopicsLockWorkerResponse,
    Field(1, "registerSuccess", BOOL, required=True),
)
UnlockPartitionRequest.SPEC = struct_spec(
    UnlockPartitionRequest,
    Field(1, "consumeUnit", struct_of(ConsumeUnit), required=True),
    Field(1001, "leaveGroup", BOOL),
)
RenewRequest.SPEC = struct_spec(
    RenewRequest,
    Field(1, "consumeUnit", struct_of(ConsumeUnit), required=True),
)
RenewResponse.SPEC = struct_spec(
    RenewResponse,
    Field(1, "heartbeatSuccess", BOOL, required=True),
    Field(2, "failedPartitionList", list_of(I32), required=True),
)
TopicsRenewRequest.SPEC = struct_spec(
    TopicsRenewRequest,
    Field(1, "consumeUnit", struct_of(TopicsConsumeUnit), required=True),
)
TopicsRenewResponse.SPEC = struct_spec(
    TopicsRenewResponse,
    Field(1, "heartbeatSuccess", BOOL, required=True),
    Field(2, "failedPartitionList", list_of(struct_of(TopicAndPartition)), required=True),
)
UpdateOffsetRequest.SPEC = struct_spec(
    UpdateOffsetRequest,
    Field(1, "checkpoint", struct_of(CheckPoint), required=True),
)
UpdateOffsetResponse.SPEC = struct_spec(
    UpdateOffsetResponse,
    Field(1, "success", BOOL, required=True),
)
QueryOffsetRequest.SPEC = struct_spec(
    QueryOffsetRequest,
    Field(1, "consumerGroup", STRING, required=True),
    Field(2, "topicAndPartition", struct_of(TopicAndPartition), required=True),
)
QueryOffsetResponse.SPEC = struct_spec(
    QueryOffsetResponse,
    Field(1, "msgOffset", I64, required=True),
)
QueryWorkerRequest.SPEC = struct_spec(
    QueryWorkerRequest,
    Field(1, "consumerGroup", STRING, required=True),
    Field(2, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(1001, "waitMillis", I32),
    Field(1002, "knownMark", I64),
)
QueryWorkerResponse.SPEC = struct_spec(
    QueryWorkerResponse,
    Field(1, "workerMap", map_of(STRING, list_of(I32)), required=True),
    Field(1001, "mark", I64),
)
TopicsQueryWorkerRequest.SPEC = struct_spec(
    TopicsQueryWorkerRequest,
    Field(1, "consumerGroup", STRING, required=True),
    Field(2, "topicTalosResourceNames", list_of(struct_of(TopicTalosResourceName)), required=True),
    Field(3, "topicGroup", STRING, required=True),
)
TopicsQueryWorkerResponse.SPEC = struct_spec(
    TopicsQueryWorkerResponse,
    Field(1, "workerMap", map_of(STRING, list_of(struct_of(TopicAndPartition))), required=True),
)
ConsumerGroupAndPartition.SPEC = struct_spec(
    ConsumerGroupAndPartition,
    Field(1, "consumerGroupName", STRING, required=True),
    Field(2, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
    Field(3, "partitionId", I32, required=True),
)
QueryOrgOffsetRequest.SPEC = struct_spec(
    QueryOrgOffsetRequest,
    Field(1, "consumerGroupPrefix", STRING, required=True),
    Field(2, "orgId", STRING, required=True),
)
QueryOrgOffsetResponse.SPEC = struct_spec(
    QueryOrgOffsetResponse,
    Field(1, "consumerGroupOffsetMap", map_of(struct_of(ConsumerGroupAndPartition), I64), required=True),
)
GetWorkerIdRequest.SPEC = struct_spec(
    GetWorkerIdRequest,
    Field(1, "topicAndPartition", struct_of(TopicAndPartition), required=True),
    Field(2, "consumerGroup", STRING, required=True),
)
GetWorkerIdResponse.SPEC = struct_spec(
    GetWorkerIdResponse,
    Field(1, "workerId", STRING, required=True),
)
DeleteConsumerGroupRequest.SPEC = struct_spec(
    DeleteConsumerGroupRequest,
    Field(1, "consumerGroup", STRING, required=True),
    Field(2, "topicTalosResourceName", struct_of(TopicTalosResourceName), required=True),
)

CONSUMER_SERVICE = ServiceSpec(
    "ConsumerService",
    "/v1/api/consumer",
    {
        **TALOS_BASE_SERVICE.methods,
        "lockPartition": MethodSpec(
            "lockPartition",
            (Field(1, "request", struct_of(LockPartitionRequest)),),
            struct_of(LockPartitionResponse),
            GalaxyTalosException,
        ),
        "lockWorker": MethodSpec(
            "lockWorker",
            (Field(1, "request", struct_of(LockWorkerRequest)),),
            struct_of(LockWorkerResponse),
            GalaxyTalosException,
        ),
        "lockWorkerForTopics": MethodSpec(
            "lockWorkerForTopics",
            (Field(1, "request", struct_of(TopicsLockWorkerRequest)),),
            struct_of(TopicsLockWorkerResponse),
            GalaxyTalosException,
        ),
        "checkRegister": MethodSpec(
            "checkRegister",
            (Field(1, "request", struct_of(CheckRegisterRequest)),),
            struct_of(CheckRegisterResponse),
            GalaxyTalosException,
        ),
        "unlockPartition": MethodSpec(
            "unlockPartition",
            (Field(1, "request", struct_of(UnlockPartitionRequest)),),
            None,
            GalaxyTalosException,
        ),
        "renew": MethodSpec(
            "renew",
            (Field(1, "request", struct_of(RenewRequest)),),
            struct_of(RenewResponse),
            GalaxyTalosException,
        ),
        "renewForTopics": MethodSpec(
            "renewForTopics",
            (Field(1, "request", struct_of(TopicsRenewRequest)),),
            struct_of(TopicsRenewResponse),
            GalaxyTalosException,
        ),
        "updateOffset": MethodSpec(
            "updateOffset",
            (Field(1, "request", struct_of(UpdateOffsetRequest)),),
            struct_of(UpdateOffsetResponse),
            GalaxyTalosException,
        ),
        "queryOffset": MethodSpec(
            "queryOffset",
            (Field(1, "request", struct_of(QueryOffsetRequest)),),
            struct_of(QueryOffsetResponse),
            GalaxyTalosException,
        ),
        "queryWorker": MethodSpec(
            "queryWorker",
            (Field(1, "request", struct_of(QueryWorkerRequest)),),
            struct_of(QueryWorkerResponse),
            GalaxyTalosException,
        ),
        "queryWorkerForTopics": MethodSpec(
            "queryWorkerForTopics",
            (Field(1, "request", struct_of(TopicsQueryWorkerRequest)),),
            struct_of(TopicsQueryWorkerResponse),
            GalaxyTalosException,
        ),
        "queryOrgOffset": MethodSpec(
            "queryOrgOffset",
            (Field(1, "request", struct_of(QueryOrgOffsetRequest)),),
            struct_of(QueryOrgOffsetResponse),
            GalaxyTalosException,
        ),
        "getWorkerId": MethodSpec(
            "getWorkerId",
            (Field(1, "request", struct_of(GetWorkerIdRequest)),),
            struct_of(GetWorkerIdResponse),
            GalaxyTalosException,
        ),
        "deleteConsumerGroup": MethodSpec(
            "deleteConsumerGroup",
            (Field(1, "request", struct_of(DeleteConsumerGroupRequest)),),
            None,
            GalaxyTalosException,
        ),
    },
)

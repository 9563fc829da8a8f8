"""Calls of the quota, metric, consumer and transaction services through the SDK's own code."""

from collections.abc import Callable
from functools import partial
from typing import Any

from sdk import Arguments, error_of, run, say, service, topic_and_partition
from talos.thrift.authorization.ttypes import Grantee, GrantType
from talos.thrift.consumer import ConsumerService
from talos.thrift.consumer.ttypes import (
    CheckPoint,
    ConsumeUnit,
    GetWorkerIdRequest,
    LockPartitionRequest,
    LockWorkerRequest,
    QueryOffsetRequest,
    QueryWorkerRequest,
    RenewRequest,
    UnlockPartitionRequest,
    UpdateOffsetRequest,
)
from talos.thrift.message import MessageService
from talos.thrift.message.ttypes import (
    GetDataPreviewRequest,
    GetPartitionsOffsetRequest,
    MessageBlock,
    MessageCompressionType,
    PrepareRequest,
)
from talos.thrift.metric import MetricService
from talos.thrift.metric.ttypes import (
    ConsumerGroupAndTopic,
    GetTopicConsumeUnitRequest,
    QueryConsumerGroupRequest,
    QueryTopicConsumeUnitRequest,
)
from talos.thrift.quota import QuotaService
from talos.thrift.quota.ttypes import (
    ApplyQuotaRequest,
    ApproveQuotaRequest,
    BaseQuota,
    DeleteUserQuotaRequest,
    PartitionQuotaInfo,
    SetUserQuotaRequest,
    UserQuota,
)
from talos.thrift.topic import TopicService
from talos.thrift.topic.ttypes import (
    CreateReplicationTopicRequest,
    DescribeTopicRequest,
    GetPermissionRequest,
    QueryTopicQuotaRequest,
    SetTopicQuotaRequest,
    TopicAndPartition,
)

ORGANISATION = "CL1"


def attempt(name: str, call: Callable[[], Any], show: Callable[[Any], Any] = str) -> None:
    """Say a call's answer, or how it failed."""
    answers: list[Any] = []
    failed = error_of(lambda: answers.append(show(call())))
    say(call=name, **failed) if failed else say(call=name, answer=answers[0])


def quotas(client: Any, developer: str) -> None:
    base = BaseQuota(spaceQuota=1 << 30, putMessageQpsQuota=100)
    attempt(
        "setUserQuota",
        lambda: client.setUserQuota(SetUserQuotaRequest(developer, UserQuota(base, 5))),
    )
    attempt("listUserQuota", client.listUserQuota, lambda item: len(item.userQuotaList))
    attempt("queryUserQuota", client.queryUserQuota, lambda item: item.userQuota is not None)
    attempt("deleteUserQuota", lambda: client.deleteUserQuota(DeleteUserQuotaRequest(developer)))
    wanted = PartitionQuotaInfo(orgId=ORGANISATION, totalQuota=20, applyReason="a test")
    attempt("applyQuota", lambda: client.applyQuota(ApplyQuotaRequest(wanted)))
    attempt("listPendingQuota", client.listPendingQuota)
    attempt("approveQuota", lambda: client.approveQuota(ApproveQuotaRequest(wanted)))
    attempt("listQuota", client.listQuota)


def topic_calls(client: Any, name: str, resource: Any) -> None:
    attempt(
        "describeTopic",
        lambda: client.describeTopic(DescribeTopicRequest(name)),
        lambda item: item.topicInfo.topicName,
    )
    quota = client.queryTopicQuota(QueryTopicQuotaRequest(resource)).topicQuota
    quota.putMessageQpsQuota = 500
    attempt("setTopicQuota", lambda: client.setTopicQuota(SetTopicQuotaRequest(resource, quota)))
    attempt(
        "queryTopicQuota",
        lambda: client.queryTopicQuota(QueryTopicQuotaRequest(resource)),
        lambda item: item.topicQuota.putMessageQpsQuota,
    )
    grantee = Grantee(type=GrantType.DEVELOPER, identifier="nobody")
    attempt(
        "getPermission",
        lambda: client.getPermission(GetPermissionRequest(resource, grantee)),
        lambda item: item.permission,
    )
    mirror = CreateReplicationTopicRequest("mirror", "source-cluster", name)
    attempt("createReplicationTopic", lambda: client.createReplicationTopic(mirror))


def consuming(client: Any, first: Any) -> None:
    resource, group = first.topicTalosResourceName, "tour-group"
    mine = ConsumeUnit(group, resource, [], "worker-a")
    one = ConsumeUnit(group, resource, [0], "worker-a")
    other = ConsumeUnit(group, resource, [0], "worker-b")
    attempt(
        "lockWorker",
        lambda: client.lockWorker(LockWorkerRequest(mine)),
        lambda answer: answer.registerSuccess,
    )
    attempt(
        "lockPartition",
        lambda: client.lockPartition(LockPartitionRequest(one)),
        lambda answer: [answer.successPartitions, answer.failedPartitions],
    )
    client.lockWorker(LockWorkerRequest(ConsumeUnit(group, resource, [], "worker-b")))
    attempt(
        "lockPartition of another's",
        lambda: client.lockPartition(LockPartitionRequest(other)),
        lambda answer: [answer.successPartitions, answer.failedPartitions],
    )
    attempt(
        "renew of another's",
        lambda: client.renew(RenewRequest(other)),
        lambda answer: [answer.heartbeatSuccess, answer.failedPartitionList],
    )
    attempt(
        "queryWorker",
        lambda: client.queryWorker(QueryWorkerRequest(group, resource)),
        lambda answer: {name: sorted(held) for name, held in answer.workerMap.items()},
    )
    attempt(
        "getWorkerId",
        lambda: client.getWorkerId(GetWorkerIdRequest(first, group)),
        lambda answer: answer.workerId,
    )
    attempt(
        "queryOffset before a commit",
        lambda: client.queryOffset(QueryOffsetRequest(group, first)),
        lambda answer: answer.msgOffset,
    )
    for title, offset, worker in (
        ("updateOffset by another", 1, "worker-b"),
        ("updateOffset", 1, "worker-a"),
        ("updateOffset beyond the end", 1_000_000, "worker-a"),
    ):
        update = UpdateOffsetRequest(CheckPoint(group, first, offset, worker))
        attempt(title, partial(client.updateOffset, update), lambda answer: answer.success)
    attempt(
        "queryOffset",
        lambda: client.queryOffset(QueryOffsetRequest(group, first)),
        lambda answer: answer.msgOffset,
    )
    attempt("unlockPartition", lambda: client.unlockPartition(UnlockPartitionRequest(one)))


def metrics(client: Any, resource: Any) -> None:
    attempt(
        "queryConsumerGroup",
        lambda: client.queryConsumerGroup(QueryConsumerGroupRequest(resource)),
        lambda answer: sorted(answer.consumerGroupList),
    )
    unit = ConsumerGroupAndTopic("tour-group", resource)
    attempt(
        "getTopicConsumeUnit",
        lambda: client.getTopicConsumeUnit(GetTopicConsumeUnitRequest(unit)),
        lambda answer: [
            [item.partitionId, item.consumerCommitOffset, item.consumerOffsetLag]
            for item in answer.partitionConsumeUnitList
        ],
    )
    attempt(
        "queryTopicConsumeUnit",
        lambda: client.queryTopicConsumeUnit(QueryTopicConsumeUnitRequest(resource)),
        lambda answer: True,
    )


def message_calls(client: Any, first: Any) -> None:
    absent = TopicAndPartition(first.topicName, first.topicTalosResourceName, 77)
    attempt(
        "getPartitionsOffset",
        lambda: client.getPartitionsOffset(GetPartitionsOffsetRequest([first, absent])),
        lambda answer: [[item.partitionId, item.errorCode] for item in answer.offsetInfoList],
    )
    attempt(
        "getDataPreview",
        lambda: client.getDataPreview(GetDataPreviewRequest(first)),
        lambda answer: answer.messageNumber,
    )
    block = MessageBlock(
        startMessageOffset=0,
        messageNumber=1,
        compressionType=MessageCompressionType.NONE,
        messageBlock=b"\x00\x00\x00\x00\x00\x00\x00\x02hi",
        messageBlockSize=10,
        createTimestamp=0,
    )
    attempt("prepare", lambda: client.prepare(PrepareRequest(first, block, 1, "tour#1")))


def program(arguments: Arguments) -> None:
    name = arguments["topic"]
    first = topic_and_partition(arguments, name, 0)
    quotas(service(arguments, QuotaService), "some-developer")
    topic_calls(service(arguments, TopicService), name, first.topicTalosResourceName)
    consuming(service(arguments, ConsumerService), first)
    metrics(service(arguments, MetricService), first.topicTalosResourceName)
    message_calls(service(arguments, MessageService), first)


if __name__ == "__main__":
    run(program)

"""Every Talos RPC: which right it needs. Written from docs/protocol/administration.md and
docs/operating/tenants.md."""

from typing import Any

from tests.e2e.access import model
from tests.e2e.access.callers import PUTTER
from tests.e2e.access.model import Line, Right, each, topic
from tests.e2e.access.stage import Stage
from tests.raw_client import block_of, idl

TOPIC, MESSAGE, CONSUMER = idl("topic"), idl("message"), idl("consumer")
QUOTA, METRIC, GRANTEE = idl("quota"), idl("metric"), idl("authorization").Grantee
VERSION = idl("common").Version(1, 0, 0, "", "")
NO_TRANSACTIONS = "transactions are not supported"
NO_REPLICATION = "replication is not supported"


def request(make: Any, *parts: str, **fixed: Any) -> Any:
    """Arguments ``request=make(...)``; ``parts`` are attributes of the stage, in order."""
    return lambda stage: {"request": make(*(getattr(stage, part) for part in parts), **fixed)}


def named(stage: Stage) -> Any:
    return TOPIC.TopicTalosResourceName(stage.resource)


def place(stage: Stage) -> Any:
    return TOPIC.TopicAndPartition(stage.topic_name, named(stage), 0)


def of_resource(make: Any, **fixed: Any) -> Any:
    """A request whose first field is the resource name."""
    return lambda stage: {"request": make(named(stage), **fixed)}


def of_place(make: Any, **fixed: Any) -> Any:
    """A request whose first field is the partition."""
    return lambda stage: {"request": make(place(stage), **fixed)}


def unit(make: Any) -> Any:
    """A request about a worker of a group."""
    return lambda stage: {
        "request": make(CONSUMER.ConsumeUnit(stage.group, named(stage), [0], "worker"))
    }


def attribute(partitions: int = 1, **attributes: str) -> Any:
    return TOPIC.TopicAttribute(partitionNumber=partitions, attributes=attributes or None)


def created(name: str) -> Any:
    """createTopic with a name made from the stage's ``fresh``."""
    return lambda stage: {
        "request": TOPIC.CreateTopicRequest(name.format(stage.fresh()), attribute())
    }


def topic_group(make: Any) -> Any:
    return lambda stage: {
        "request": make(TOPIC.TopicGroup("together", "anybody", 1, None, [stage.topic_name], None))
    }


def put(stage: Stage) -> Any:
    return {"request": MESSAGE.PutMessageRequest(place(stage), [block_of(b"m")], 1, "s#1")}


def get(stage: Stage) -> Any:
    return {"request": MESSAGE.GetMessageRequest(place(stage), 0, 10, 1000, sequenceId="s#1")}


def commit(stage: Stage) -> Any:
    checkpoint = CONSUMER.CheckPoint(stage.group, place(stage), 0, "worker", -1)
    return {"request": CONSUMER.UpdateOffsetRequest(checkpoint)}


def renewed(stage: Stage) -> Any:
    held = CONSUMER.TopicsConsumeUnit(stage.group, {stage.resource: [0]}, "worker", "")
    return {"request": CONSUMER.TopicsRenewRequest(held)}


def quota_of(make: Any, total: int = 7) -> Any:
    return lambda stage: {
        "request": make(QUOTA.PartitionQuotaInfo(stage.world.organisation, total, 0, "test"))
    }


def lost(reply: Any) -> bool:
    """A worker must not stop because of one topic, so a missing topic is no error."""
    return bool(reply.failedPartitionList)


def none_there(reply: Any) -> bool:
    return not reply.workerMap


LIMITS = QUOTA.BaseQuota(1 << 40, None, None, 100_000, 100_000, 1 << 30, 1 << 30)
DESCRIBE, CHANGE, GRANT, GET = (
    topic(right) for right in (Right.DESCRIBE, Right.CHANGE, Right.GRANT, Right.GET)
)

VERSIONS = [
    Line(f"{service}.{rpc}", model.anybody, arguments)
    for service in ("topic", "message", "consumer", "quota", "metric")
    for rpc, arguments in (
        ("getServiceVersion", lambda _: {}),
        ("validClientVersion", lambda _: {"clientVersion": VERSION}),
    )
]

TOPICS = [
    Line("topic.createTopic", model.manages, created("new-{}")),
    Line(
        "topic.createTopic", each(model.manages, model.administrator), created("CLempty/new-{}"),
        "of another organisation",
    ),
    Line(
        "topic.createReplicationTopic", model.anybody,
        lambda stage: {"request": TOPIC.CreateReplicationTopicRequest(stage.fresh(), [])},
        fails=NO_REPLICATION,
    ),
    Line(
        "topic.changeReplicationTopicSourceInfo", model.anybody,
        of_resource(TOPIC.ChangeReplicationTopicSourceInfoRequest, sourceTopicInfoList=[]),
        fails=NO_REPLICATION,
    ),
    Line(
        "topic.changeTopicAttribute", CHANGE,
        of_resource(TOPIC.ChangeTopicAttributeRequest, topicAttribute=attribute(1, colour="red")),
    ),
    Line(
        "topic.deleteTopicAttribute", CHANGE,
        of_resource(TOPIC.DeleteTopicAttributeRequest, topicAttributeKey="colour"),
    ),
    Line(
        "topic.changeTopicOwnerInfo", CHANGE,
        of_resource(
            TOPIC.ChangeTopicOwnerInfoRequest, ownerInfo=TOPIC.TopicOwnerInfo("charge", "somebody")
        ),
    ),
    Line("topic.describeTopic", DESCRIBE, request(TOPIC.DescribeTopicRequest, "topic_path")),
    Line("topic.getDescribeInfo", DESCRIBE, request(TOPIC.GetDescribeInfoRequest, "topic_path")),
    Line(
        "topic.getTopicAttribute", DESCRIBE, request(TOPIC.GetTopicAttributeRequest, "topic_path")
    ),
    Line("topic.listTopics", model.anybody, lambda _: {}, sees=model.sees_owned),
    Line("topic.listTopicsInfo", model.anybody, lambda _: {}, sees=model.sees_owned),
    Line("topic.getBindTopics", model.anybody, lambda _: {}, sees=model.sees_bound),
    Line(
        "topic.setTopicQuota", CHANGE, of_resource(TOPIC.SetTopicQuotaRequest, topicQuota=LIMITS)
    ),
    Line("topic.queryTopicQuota", CHANGE, of_resource(TOPIC.QueryTopicQuotaRequest)),
    Line("topic.deleteTopicQuota", CHANGE, of_resource(TOPIC.DeleteTopicQuotaRequest)),
    Line(
        "topic.setPermission", GRANT,
        of_resource(TOPIC.SetPermissionRequest, grant=GRANTEE(1, "newcomer"), permission=2),
    ),
    Line(
        "topic.listPermission", DESCRIBE, of_resource(TOPIC.ListPermissionRequest),
        sees=model.sees_grants(PUTTER), shown="grantee",
    ),
    Line(
        "topic.getPermission", DESCRIBE,
        lambda stage: {
            "request": TOPIC.GetPermissionRequest(named(stage), GRANTEE(1, stage.world.topic.owner))
        },
        "of the owner",
    ),
    Line(
        "topic.getPermission", each(DESCRIBE, GRANT),
        of_resource(TOPIC.GetPermissionRequest, grant=GRANTEE(1, "newcomer")), "of another one",
    ),
    Line(
        "topic.revokePermission", GRANT,
        of_resource(TOPIC.RevokePermissionRequest, grant=GRANTEE(1, "newcomer")),
    ),
    Line("topic.createTopicGroup", model.manages, topic_group(TOPIC.CreateTopicGroupRequest)),
    Line("topic.updateTopicGroup", model.manages, topic_group(TOPIC.UpdateTopicGroupRequest)),
    Line(
        "topic.describeTopicGroup", model.anybody,
        lambda _: {"request": TOPIC.DescribeTopicGroupRequest("together")},
    ),
    Line("topic.listTopicGroup", model.anybody, lambda _: {}),
    Line(
        "topic.lookupTopics", model.anybody,
        lambda _: {"request": TOPIC.LookupTopicsRequest("together")}, sees=model.sees_owned,
    ),
    Line(
        "topic.deleteTopicGroup", model.manages,
        lambda _: {"request": TOPIC.DeleteTopicGroupRequest("together")},
    ),
    Line(
        "topic.matchTopics", model.anybody,
        lambda stage: {"request": TOPIC.MatchTopicsRequest(stage.topic_name, "")},
        sees=model.sees_topic,
    ),
    Line(
        "topic.addSubResourceName", model.each(CHANGE, model.outside_organisations),
        of_resource(TOPIC.AddSubResourceNameRequest, orgId="CLlate", adminTeamId="CIlate"),
        last=True,
    ),
    Line("topic.deleteTopic", CHANGE, of_resource(TOPIC.DeleteTopicRequest), last=True),
]  # fmt: skip

TRANSACTION = {"transactionId": 1, "sequenceId": "s"}
MESSAGES = [
    Line("message.putMessage", topic(Right.PUT), put),
    Line("message.getMessage", GET, get),
    Line(
        "message.prepare", model.anybody,
        lambda stage: {"request": MESSAGE.PrepareRequest(place(stage), block_of(b"m"), 1, "s")},
        fails=NO_TRANSACTIONS,
    ),
    Line(
        "message.commit", model.anybody, of_place(MESSAGE.CommitRequest, **TRANSACTION),
        fails=NO_TRANSACTIONS,
    ),
    Line(
        "message.rollback", model.anybody, of_place(MESSAGE.RollbackRequest, **TRANSACTION),
        fails=NO_TRANSACTIONS,
    ),
    Line(
        "message.getUnkownStateTransaction", model.anybody,
        of_place(MESSAGE.GetUnkownStateTransactionRequest), fails=NO_TRANSACTIONS,
    ),
    Line("message.getTopicOffset", GET, of_resource(MESSAGE.GetTopicOffsetRequest)),
    Line("message.getPartitionOffset", GET, of_place(MESSAGE.GetPartitionOffsetRequest)),
    Line(
        "message.getPartitionsOffset", GET,
        lambda stage: {"request": MESSAGE.GetPartitionsOffsetRequest([place(stage)])},
    ),
    Line(
        "message.getTopicCheckpoint", GET,
        of_resource(MESSAGE.GetCheckpointRequest, partitionTimeIndexMap={0: 1}),
    ),
    Line(
        "message.getPartitionCheckpoint", GET,
        of_place(MESSAGE.GetPartitionCheckpointRequest, partitionTimeIndex=1),
    ),
    Line("message.getScheduleInfo", DESCRIBE, of_resource(MESSAGE.GetScheduleInfoRequest)),
    Line("message.getDataPreview", GET, of_place(MESSAGE.GetDataPreviewRequest)),
    Line(
        "message.deleteMessageIndex", each(model.administrator, GET),
        of_place(MESSAGE.DeleteMessageIndexRequest, startOffset=0, endOffset=0),
    ),
]  # fmt: skip

CONSUMERS = [
    Line("consumer.lockWorker", GET, unit(CONSUMER.LockWorkerRequest)),
    Line("consumer.lockPartition", GET, unit(CONSUMER.LockPartitionRequest)),
    Line(
        "consumer.lockWorkerForTopics", GET,
        lambda stage: {
            "request": CONSUMER.TopicsLockWorkerRequest(stage.group, [named(stage)], "worker", "")
        },
    ),
    Line("consumer.checkRegister", GET, unit(CONSUMER.CheckRegisterRequest)),
    Line("consumer.renew", GET, unit(CONSUMER.RenewRequest)),
    Line("consumer.renewForTopics", GET, renewed, misses=lost),
    Line("consumer.updateOffset", GET, commit),
    Line(
        "consumer.queryOffset", GET,
        lambda stage: {"request": CONSUMER.QueryOffsetRequest(stage.group, place(stage))},
    ),
    Line(
        "consumer.queryWorker", GET,
        lambda stage: {"request": CONSUMER.QueryWorkerRequest(stage.group, named(stage))},
    ),
    Line(
        "consumer.queryWorkerForTopics", GET,
        lambda stage: {
            "request": CONSUMER.TopicsQueryWorkerRequest(stage.group, [named(stage)], "")
        },
        misses=none_there,
    ),
    Line(
        "consumer.queryOrgOffset", model.member,
        lambda stage: {
            "request": CONSUMER.QueryOrgOffsetRequest(stage.group, stage.world.organisation)
        },
    ),
    Line(
        "consumer.getWorkerId", GET,
        lambda stage: {"request": CONSUMER.GetWorkerIdRequest(place(stage), stage.group)},
    ),
    Line("consumer.unlockPartition", GET, unit(CONSUMER.UnlockPartitionRequest)),
    Line(
        "consumer.deleteConsumerGroup", GET,
        lambda stage: {
            "request": CONSUMER.DeleteConsumerGroupRequest(stage.done_group, named(stage))
        },
    ),
]  # fmt: skip

BILL, LOOK_OR_BILL = model.role("billing"), model.role("viewer", "operator", "billing")
MANAGES_MEMBER = each(model.member, model.manages)
USER_QUOTA = QUOTA.UserQuota(LIMITS, 5)
QUOTAS = [
    Line(
        "quota.setUserQuota", BILL,
        request(QUOTA.SetUserQuotaRequest, "victim", userQuota=USER_QUOTA),
    ),
    Line(
        "quota.listUserQuota", LOOK_OR_BILL, lambda _: {}, sees=model.sees_as(LOOK_OR_BILL),
        shown="victim",
    ),
    Line("quota.queryUserQuota", model.anybody, lambda _: {}),
    Line(
        "quota.deleteUserQuota", BILL,
        request(QUOTA.DeleteUserQuotaRequest, "victim"),
    ),
    Line("quota.applyQuota", MANAGES_MEMBER, quota_of(QUOTA.ApplyQuotaRequest)),
    Line("quota.listPendingQuota", model.anybody, lambda _: {}),
    Line("quota.approveQuota", BILL, quota_of(QUOTA.ApproveQuotaRequest, 10**6)),
    Line("quota.listQuota", model.anybody, lambda _: {}),
    Line("quota.autoApplyQuota", MANAGES_MEMBER, quota_of(QUOTA.AutoApplyQuotaRequest)),
    Line("quota.revokeQuota", BILL, quota_of(QUOTA.RevokeQuotaRequest)),
]  # fmt: skip

METRICS = [
    Line("metric.listTopics", model.anybody, lambda _: {}, sees=model.sees_owned),
    Line("metric.queryConsumerGroup", DESCRIBE, of_resource(METRIC.QueryConsumerGroupRequest)),
    Line(
        "metric.getTopicConsumeUnit", DESCRIBE,
        lambda stage: {
            "request": METRIC.GetTopicConsumeUnitRequest(
                METRIC.ConsumerGroupAndTopic(stage.kept_group, named(stage))
            )
        },
    ),
    Line(
        "metric.queryTopicConsumeUnit", DESCRIBE, of_resource(METRIC.QueryTopicConsumeUnitRequest)
    ),
    Line("metric.getDataPreview", GET, of_place(MESSAGE.GetDataPreviewRequest)),
]  # fmt: skip

LINES = (*VERSIONS, *TOPICS, *MESSAGES, *CONSUMERS, *QUOTAS, *METRICS)

"""TopicService through its handlers: translation and the clients' quirks."""

import pytest
from tests.unit.broker.support import world
from tests.unit.gateway.thrift_http.handlers.support import ADMIN, ALICE, BOB, ORG, Client

from opentalos.gateway.thrift_http.handlers import HANDLERS
from opentalos.model.errors import (
    BadRequest,
    InvalidTopicParams,
    NotSupported,
    PermissionDenied,
    QuotaAutoApproveFailed,
    TopicExists,
    TopicNotExist,
)
from opentalos.wire._generated import authorization, quota, topic
from opentalos.wire._generated.common import Version
from opentalos.wire._generated.talos import SERVICES

TOPIC = "TopicService"


def test_every_rpc_of_every_service_has_a_handler() -> None:
    assert {name: set(service.methods) for name, service in SERVICES.items()} == {
        name: set(handlers) for name, handlers in HANDLERS.items()
    }


async def test_a_created_topic_is_described_with_all_five_parts() -> None:
    async with world() as made:
        alice = Client(made)
        request = topic.CreateTopicRequest(
            topicName="clicks",
            topicAttribute=topic.TopicAttribute(
                partitionNumber=3, messageRetentionSecs=7200, attributes={"team": "web"}
            ),
            topicQuota=quota.BaseQuota(spaceQuota=1 << 30, putMessageQpsQuota=50),
            aclMap={authorization.Grantee(type=1, identifier="bob"): topic.Permission.GET_MESSAGE},
            ownerName="Alice",
        )
        info = (await alice(TOPIC, "createTopic", request)).topicInfo
        assert (info.topicName, info.ownerId) == ("clicks", "alice")
        assert info.ownerInfo.ownerName == "Alice"
        assert info.topicTalosResourceName.topicTalosResourceName.startswith("alice#clicks#")
        name = topic.DescribeTopicRequest(topicName="clicks")
        found: topic.DescribeTopicResponse = await alice(TOPIC, "describeTopic", name)
        assert found.topicInfo == info
        assert found.topicAttribute.partitionNumber == 3
        assert found.topicAttribute.messageRetentionSecs == 7200
        assert found.topicAttribute.attributes == {"team": "web"}
        assert found.topicState.topicStatus == topic.TopicStatus.ACTIVE
        assert [state.partitionId for state in found.topicState.partitionStates] == [0, 1, 2]
        assert found.topicState.partitionStates[0].lastestOffset == -1
        assert (found.topicQuota.spaceQuota, found.topicQuota.usedSpace) == (1 << 30, 0)
        assert found.topicQuota.remainingSpace == 1 << 30
        assert found.topicQuota.putMessageQpsQuota == 50
        assert found.aclMap["bob"] == topic.Permission.GET_MESSAGE
        assert found.aclMap["alice"] == topic.Permission.ADMIN


async def test_names_resolve_plain_and_with_the_organisation() -> None:
    async with world() as made:
        olga = Client(made, ORG)
        info = await olga.create("CL1/orders")
        assert (info.topicName, info.ownerId) == ("orders", "CL1")
        for name in ("orders", "CL1/orders", info.topicTalosResourceName.topicTalosResourceName):
            request = topic.GetDescribeInfoRequest(topicName=name)
            found = await olga(TOPIC, "getDescribeInfo", request)
            assert found.topicTalosResourceName == info.topicTalosResourceName
            assert found.partitionNumber == 2
            attribute = await olga(
                TOPIC, "getTopicAttribute", topic.GetTopicAttributeRequest(topicName=name)
            )
            assert attribute.topicAttribute.partitionNumber == 2


async def test_lists_hold_the_callers_own_topics() -> None:
    async with world() as made:
        alice, bob = Client(made), Client(made, BOB)
        info = await alice.create("a")
        await bob.create("b")
        assert (await alice(TOPIC, "listTopics")).topicInfos == [info]
        (entry,) = (await alice(TOPIC, "listTopicsInfo")).topicList
        assert (entry.topicInfo, len(entry.topicState.partitionStates)) == (info, 2)
        (same,) = (await alice("MetricService", "listTopics")).topicList
        assert same == entry
        assert (await alice(TOPIC, "getBindTopics")).topicInfos == []


async def test_attributes_change_and_disappear() -> None:
    async with world() as made:
        alice = Client(made)
        info = await alice.create(partitions=2)
        change = topic.ChangeTopicAttributeRequest(
            topicTalosResourceName=info.topicTalosResourceName,
            topicAttribute=topic.TopicAttribute(partitionNumber=4, attributes={"k": "v"}),
        )
        await alice(TOPIC, "changeTopicAttribute", change)
        name = topic.GetTopicAttributeRequest(topicName="clicks")
        attribute = (await alice(TOPIC, "getTopicAttribute", name)).topicAttribute
        assert (attribute.partitionNumber, attribute.oldPartitionNumber) == (4, 2)
        assert attribute.attributes == {"k": "v"}
        remove = topic.DeleteTopicAttributeRequest(
            topicTalosResourceName=info.topicTalosResourceName, topicAttributeKey="k"
        )
        await alice(TOPIC, "deleteTopicAttribute", remove)
        attribute = (await alice(TOPIC, "getTopicAttribute", name)).topicAttribute
        assert attribute.attributes == {}


async def test_errors_are_raised_as_leaves() -> None:
    async with world() as made:
        alice = Client(made)
        info = await alice.create()
        with pytest.raises(TopicExists):
            await alice.create()
        with pytest.raises(TopicNotExist):
            await alice(TOPIC, "describeTopic", topic.DescribeTopicRequest(topicName="other"))
        nothing = topic.CreateTopicRequest(topicName="x", topicAttribute=topic.TopicAttribute())
        with pytest.raises(InvalidTopicParams):
            await alice(TOPIC, "createTopic", nothing)
        delete = topic.DeleteTopicRequest(topicTalosResourceName=info.topicTalosResourceName)
        with pytest.raises(TopicNotExist):
            await Client(made, BOB)(TOPIC, "deleteTopic", delete)
        await alice(TOPIC, "deleteTopic", delete)
        assert (await alice(TOPIC, "listTopics")).topicInfos == []


async def test_permissions_are_set_shown_and_revoked() -> None:
    async with world() as made:
        alice = Client(made)
        info = await alice.create()
        name, bob = info.topicTalosResourceName, authorization.Grantee(type=1, identifier="bob")
        both = topic.Permission.GET_MESSAGE_AND_DESCRIBE_TOPIC
        grant = topic.SetPermissionRequest(topicResourceName=name, grant=bob, permission=both)
        await alice(TOPIC, "setPermission", grant)
        query = topic.GetPermissionRequest(topicResourceName=name, grant=bob)
        assert (await alice(TOPIC, "getPermission", query)).permission == both
        every = topic.ListPermissionRequest(topicResourceName=name)
        assert (await alice(TOPIC, "listPermission", every)).permissions["bob"] == both
        for bad in (32, -1):
            wrong = topic.SetPermissionRequest(topicResourceName=name, grant=bob, permission=bad)
            with pytest.raises(BadRequest, match="unknown permission"):
                await alice(TOPIC, "setPermission", wrong)
        revoke = topic.RevokePermissionRequest(topicResourceName=name, grant=bob)
        await alice(TOPIC, "revokePermission", revoke)
        assert (await alice(TOPIC, "getPermission", query)).permission == 0


async def test_pythons_revoke_comes_as_set_permission() -> None:
    async with world() as made:
        alice = Client(made)
        name = (await alice.create()).topicTalosResourceName
        bob = authorization.Grantee(type=1, identifier="bob")
        grant = topic.SetPermissionRequest(topicResourceName=name, grant=bob, permission=1)
        await alice(TOPIC, "setPermission", grant)
        revoke = topic.SetPermissionRequest(topicResourceName=name, grant=bob)
        with pytest.raises(BadRequest, match="permission"):
            await alice(TOPIC, "setPermission", revoke)
        await alice.hinted("revokePermission")(TOPIC, "setPermission", revoke)
        query = topic.GetPermissionRequest(topicResourceName=name, grant=bob)
        assert (await alice(TOPIC, "getPermission", query)).permission == 0


async def test_topic_quotas_and_owner_are_set() -> None:
    async with world() as made:
        alice = Client(made)
        name = (await alice.create()).topicTalosResourceName
        limits = quota.BaseQuota(spaceQuota=5000, getMessageBytesQpsQuota=77)
        change = topic.SetTopicQuotaRequest(topicResourceName=name, topicQuota=limits)
        await alice(TOPIC, "setTopicQuota", change)
        query = topic.QueryTopicQuotaRequest(topicResourceName=name)
        found = (await alice(TOPIC, "queryTopicQuota", query)).topicQuota
        assert (found.spaceQuota, found.getMessageBytesQpsQuota) == (5000, 77)
        await alice(
            TOPIC, "deleteTopicQuota", topic.DeleteTopicQuotaRequest(topicResourceName=name)
        )
        found = (await alice(TOPIC, "queryTopicQuota", query)).topicQuota
        assert found.spaceQuota != 5000
        owner = topic.TopicOwnerInfo(chargeId="77", ownerName="Ann")
        await alice(
            TOPIC,
            "changeTopicOwnerInfo",
            topic.ChangeTopicOwnerInfoRequest(topicTalosResourceName=name, ownerInfo=owner),
        )
        assert (await alice(TOPIC, "listTopics")).topicInfos[0].ownerInfo == owner


async def test_a_topic_is_bound_to_an_organisation() -> None:
    async with world() as made:
        alice, olga = Client(made), Client(made, ORG)
        info = await alice.create()
        bind = topic.AddSubResourceNameRequest(
            topicTalosResourceName=info.topicTalosResourceName, orgId="CL1", adminTeamId="CI1"
        )
        await alice(TOPIC, "addSubResourceName", bind)
        (found,) = (await olga(TOPIC, "getBindTopics")).topicInfos
        assert found.topicTalosResourceName == info.topicTalosResourceName


async def test_topic_groups_are_kept_and_looked_up() -> None:
    async with world() as made:
        alice = Client(made)
        info = await alice.create("web-1")
        await alice.create("other")
        group = topic.TopicGroup(
            topicGroupName="web", ownerId="", type=topic.TopicGroupType.TOPIC_PATTERN,
            topicPattern="web-.*",
        )  # fmt: skip
        create = topic.CreateTopicGroupRequest(topicGroup=group)
        created = (await alice(TOPIC, "createTopicGroup", create)).topicGroup
        assert (created.ownerId, created.topicPattern) == ("alice", "web-.*")
        name = topic.DescribeTopicGroupRequest(topicGroupName="web")
        assert (await alice(TOPIC, "describeTopicGroup", name)).topicGroup == created
        assert (await alice(TOPIC, "listTopicGroup")).topicGroupList == [created]
        found = await alice(TOPIC, "lookupTopics", topic.LookupTopicsRequest(topicGroup="web"))
        assert found.topics == {info.topicTalosResourceName.topicTalosResourceName: 2}
        match = topic.MatchTopicsRequest(topicPattern="web-.*", teamId="")
        assert (await alice(TOPIC, "matchTopics", match)).topics == ["web-1"]
        group.type, group.topicSet = topic.TopicGroupType.TOPIC_SET, ["other"]
        await alice(TOPIC, "updateTopicGroup", topic.UpdateTopicGroupRequest(topicGroup=group))
        changed = (await alice(TOPIC, "describeTopicGroup", name)).topicGroup
        assert (changed.type, changed.topicSet) == (topic.TopicGroupType.TOPIC_SET, ["other"])
        group.type = 9
        with pytest.raises(BadRequest, match="unknown topic group type 9"):
            await alice(TOPIC, "updateTopicGroup", topic.UpdateTopicGroupRequest(topicGroup=group))
        await alice(TOPIC, "deleteTopicGroup", topic.DeleteTopicGroupRequest(topicGroupName="web"))
        assert (await alice(TOPIC, "listTopicGroup")).topicGroupList == []


async def test_replication_is_not_supported_yet() -> None:
    async with world() as made:
        admin = Client(made, ADMIN)
        request = topic.CreateReplicationTopicRequest(topicName="x", sourceTopicInfoList=[])
        with pytest.raises(NotSupported, match="not supported yet"):
            await admin(TOPIC, "createReplicationTopic", request)
        name = topic.TopicTalosResourceName(topicTalosResourceName="a#b#c")
        change = topic.ChangeReplicationTopicSourceInfoRequest(
            topicTalosResourceName=name, sourceTopicInfoList=[]
        )
        with pytest.raises(NotSupported, match="not supported yet"):
            await admin(TOPIC, "changeReplicationTopicSourceInfo", change)


@pytest.mark.parametrize("service", SERVICES)
async def test_version_calls_are_answered(service: str) -> None:
    async with world() as made:
        alice = Client(made, ALICE)
        version: Version = await alice(service, "getServiceVersion")
        assert version.details
        assert await alice(service, "validClientVersion", version) is None


async def test_user_quotas_are_for_administrators() -> None:
    async with world() as made:
        alice, admin = Client(made), Client(made, ADMIN)
        limits = quota.UserQuota(baseQuota=quota.BaseQuota(spaceQuota=9000), topicNumberQuota=3)
        change = quota.SetUserQuotaRequest(developerId="alice", userQuota=limits)
        with pytest.raises(PermissionDenied):
            await alice("QuotaService", "setUserQuota", change)
        await admin("QuotaService", "setUserQuota", change)
        own = (await alice("QuotaService", "queryUserQuota")).userQuota
        assert (own.baseQuota.spaceQuota, own.topicNumberQuota) == (9000, 3)
        assert (await admin("QuotaService", "listUserQuota")).userQuotaList == {"alice": own}
        delete = quota.DeleteUserQuotaRequest(developerId="alice")
        await admin("QuotaService", "deleteUserQuota", delete)
        assert (await admin("QuotaService", "listUserQuota")).userQuotaList == {}


async def test_partition_quotas_are_asked_for_and_approved() -> None:
    async with world() as made:
        olga, admin = Client(made, ORG), Client(made, ADMIN)
        info = quota.PartitionQuotaInfo(orgId="CL1", totalQuota=50, applyReason="growth")
        await olga("QuotaService", "applyQuota", quota.ApplyQuotaRequest(quotaInfo=info))
        waiting = await admin("QuotaService", "listPendingQuota")
        assert waiting.talosAdmin
        assert [(q.orgId, q.totalQuota, q.applyReason) for q in waiting.pendingQuotaList] == [
            ("CL1", 50, "growth")
        ]
        approve = quota.ApproveQuotaRequest(quotaInfo=info)
        assert (await admin("QuotaService", "approveQuota", approve)).pendingQuotaList == []
        found = await olga("QuotaService", "listQuota")
        assert (found.approvedTotalQuota, found.quotaList[0].usedOuota) == (50, 0)
        revoke = quota.RevokeQuotaRequest(quotaInfo=info)
        assert (await admin("QuotaService", "revokeQuota", revoke)).talosAdmin
        info = quota.PartitionQuotaInfo(orgId="CL1", totalQuota=20_000, applyReason="growth")
        auto = quota.AutoApplyQuotaRequest(quotaInfo=info)
        with pytest.raises(QuotaAutoApproveFailed, match="pending: the history of your"):
            await olga("QuotaService", "autoApplyQuota", auto)
        [waiting] = (await admin("QuotaService", "listPendingQuota")).pendingQuotaList
        assert (waiting.totalQuota, waiting.applyReason) == (20_000, "growth")
        info.totalQuota = 10_000  # what every organisation has
        await olga("QuotaService", "autoApplyQuota", auto)

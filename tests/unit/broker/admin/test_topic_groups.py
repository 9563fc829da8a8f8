import pytest
from tests.unit.broker.support import world
from tests.unit.catalog.support import ALICE, BOB, CAROL, DAVE

from opentalos.broker.values import NewTopic, TopicGroup, TopicGroupType
from opentalos.model.errors import BadRequest, PermissionDenied, TopicGroupNotExist
from opentalos.model.identity import GUEST, Grantee, GrantType, Permission


async def test_a_group_finds_only_own_and_accepted_topics_that_its_owner_may_read() -> None:
    async with world() as w:
        mine = await w.topic(BOB, "log-a", partitions=3)
        read = {Grantee(GrantType.DEVELOPER, "bob"): Permission(6)}
        granted = await w.topic(ALICE, "log-b", acl=read)
        describe = {Grantee(GrantType.DEVELOPER, "bob"): Permission(4)}
        await w.topic(ALICE, "log-c", acl=describe)
        await w.broker.permissions.set_accepted(BOB, "alice/log-c", True)
        await w.topic(ALICE, "log-d")
        groups = w.broker.topic_groups
        pattern = TopicGroup(
            name="p", owner="", type=TopicGroupType.TOPIC_PATTERN, pattern="log-.*"
        )
        assert (await groups.create_topic_group(BOB, pattern)).owner == "bob"
        assert await groups.lookup_topics(BOB, "p") == {mine.resource: 3}
        await w.broker.permissions.set_accepted(BOB, "alice/log-b", True)
        expected = {mine.resource: 3, granted.resource: 1}
        assert await groups.lookup_topics(BOB, "p") == expected
        in_set = TopicGroup(
            name="s", owner="", type=TopicGroupType.TOPIC_SET, topics=("log-b", "log-d", "none")
        )
        await groups.create_topic_group(BOB, in_set)
        assert await groups.lookup_topics(BOB, "s") == {granted.resource: 1}


async def test_groups_are_the_callers_or_its_organisations_own() -> None:
    async with world() as w:
        groups = w.broker.topic_groups
        group = TopicGroup(name="g", owner="", type=TopicGroupType.TOPIC_SET, topics=("t",))
        made = await groups.create_topic_group(CAROL, group)
        assert groups.describe_topic_group(DAVE, "g") == made
        assert groups.list_topic_groups(DAVE) == [made]
        assert groups.list_topic_groups(BOB) == []
        with pytest.raises(TopicGroupNotExist):
            groups.describe_topic_group(BOB, "g")
        with pytest.raises(TopicGroupNotExist):
            await groups.delete_topic_group(BOB, "g")
        with pytest.raises(PermissionDenied):
            await groups.create_topic_group(GUEST, group)
        changed = TopicGroup(
            name="g", owner="", type=TopicGroupType.TOPIC_PATTERN, pattern="*", excluded=("x",)
        )
        await groups.update_topic_group(DAVE, changed)
        assert groups.describe_topic_group(CAROL, "g").excluded == ("x",)
        await w.restart()
        await w.broker.topic_groups.delete_topic_group(CAROL, "g")
        assert w.broker.topic_groups.list_topic_groups(DAVE) == []


async def test_matching_finds_a_teams_topics_among_those_the_caller_may_see() -> None:
    async with world() as w:
        describe = {Grantee(GrantType.DEVELOPER, "CIred"): Permission(4)}
        for name, acl in (("a1", describe), ("a2", {}), ("b1", describe)):
            await w.broker.topics.create_topic(ALICE, NewTopic(name=name, partitions=1, acl=acl))
        match = w.broker.topic_groups.match_topics
        assert await match(ALICE, "a.*", "") == ["a1", "a2"]
        assert await match(ALICE, "a.*", "CIred") == ["a1"]
        assert await match(CAROL, "*", "CIred") == ["a1", "b1"]
        assert await match(BOB, "*", "CIred") == []
        with pytest.raises(BadRequest):
            await match(ALICE, "(a", "")

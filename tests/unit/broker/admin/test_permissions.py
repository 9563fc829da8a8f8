import asyncio
from dataclasses import replace

import pytest
from tests.unit.broker.support import world
from tests.unit.catalog.support import ALICE, BOB, CAROL, DAVE, ROOT

from opentalos.model.errors import BadRequest, PermissionDenied, TopicNotExist
from opentalos.model.identity import GUEST, Grantee, GrantType, KeyLimits, Permission, Scope

TO_PUT = replace(BOB, limits=KeyLimits(scopes=(Scope.PUT,)))
BOB_GRANT = Grantee(GrantType.DEVELOPER, "bob")


async def test_a_grant_works_at_once_and_its_revocation_too() -> None:
    async with world() as w:
        topic, permissions = await w.topic(ALICE), w.broker.permissions
        with pytest.raises(TopicNotExist):
            await w.put(BOB, topic, 0, 1)
        await permissions.set_permission(ALICE, topic.resource, BOB_GRANT, Permission(5))
        await w.put(BOB, topic, 0, 1)
        assert permissions.get_permission(BOB, topic.resource, BOB_GRANT) == 5
        await permissions.set_permission(ALICE, topic.resource, BOB_GRANT, Permission(6))
        with pytest.raises(PermissionDenied):
            await w.put(BOB, topic, 0, 1)
        assert permissions.list_permission(ALICE, topic.resource) == {"alice": 31, "bob": 6}
        await permissions.revoke_permission(ROOT, topic.resource, BOB_GRANT)
        with pytest.raises(TopicNotExist):
            permissions.list_permission(BOB, topic.resource)
        assert permissions.get_permission(ALICE, topic.resource, BOB_GRANT) == 0


async def test_grants_reach_teams_organisations_and_guests() -> None:
    async with world() as w:
        topic, permissions = await w.topic(ALICE), w.broker.permissions
        for grantee, caller in (
            (Grantee(GrantType.APP_USER, "CIblue"), BOB),
            (Grantee(GrantType.APP_ROOT, "CLacme"), DAVE),
            (Grantee(GrantType.GUEST, ""), GUEST),
        ):
            with pytest.raises(TopicNotExist):
                await w.put(caller, topic, 0, 1)
            await permissions.set_permission(ALICE, topic.resource, grantee, Permission(1))
            await w.put(caller, topic, 0, 1)


async def test_a_grantee_can_neither_grant_nor_see_the_list_without_describe() -> None:
    async with world() as w:
        topic, permissions = await w.topic(ALICE), w.broker.permissions
        await permissions.set_permission(ALICE, topic.resource, BOB_GRANT, Permission(3))
        for attempt in (
            permissions.set_permission(BOB, topic.resource, BOB_GRANT, Permission(7)),
            permissions.revoke_permission(BOB, topic.resource, BOB_GRANT),
        ):
            with pytest.raises(PermissionDenied):
                await attempt
        with pytest.raises(PermissionDenied):
            permissions.list_permission(BOB, topic.resource)
        with pytest.raises(TopicNotExist):
            permissions.get_permission(CAROL, topic.resource, BOB_GRANT)


async def test_a_grantee_sees_its_own_grants_only() -> None:
    async with world() as w:
        topic, permissions = await w.topic(ALICE), w.broker.permissions
        team, carol = Grantee(GrantType.APP_USER, "CIblue"), Grantee(GrantType.DEVELOPER, "carol")
        for grantee in (BOB_GRANT, team, carol, Grantee(GrantType.GUEST, "")):
            await permissions.set_permission(ALICE, topic.resource, grantee, Permission(4))
        everything = {"alice": 31, "bob": 4, "CIblue": 4, "carol": 4, "guest": 4}
        for caller in (ALICE, ROOT):
            assert permissions.list_permission(caller, topic.resource) == everything
        own = {"alice": 31, "bob": 4, "CIblue": 4}
        assert permissions.list_permission(BOB, topic.resource) == own
        described = await w.broker.topics.describe_topic(BOB, topic.resource)
        assert described.permissions == own
        assert permissions.list_permission(GUEST, topic.resource) == {"alice": 31, "guest": 4}
        assert permissions.get_permission(BOB, topic.resource, team) == 4
        for other in (carol, Grantee(GrantType.DEVELOPER, "nobody")):
            with pytest.raises(PermissionDenied, match="not allowed to read grants of others"):
                permissions.get_permission(BOB, topic.resource, other)


async def test_a_stranger_cannot_take_the_messages_of_a_producer_by_a_grant() -> None:
    async with world() as w:
        permissions = w.broker.permissions
        stolen = await w.topic(ALICE, "feed")
        await permissions.set_permission(ALICE, stolen.resource, BOB_GRANT, Permission(7))
        with pytest.raises(TopicNotExist, match="alice/feed"):
            w.broker.topics.find_topic(BOB, "feed")
        await permissions.set_accepted(BOB, "alice/feed", True)
        assert w.broker.topics.find_topic(BOB, "feed").owner == "alice"
        await permissions.set_accepted(BOB, "feed", False)
        with pytest.raises(TopicNotExist, match="alice/feed"):
            w.broker.topics.find_topic(BOB, "feed")


async def test_a_grant_may_be_accepted_with_any_right_and_not_without() -> None:
    async with world() as w:
        permissions = w.broker.permissions
        topic = await w.topic(ALICE)
        await permissions.set_permission(ALICE, topic.resource, BOB_GRANT, Permission.PUT_MESSAGE)
        await permissions.set_accepted(BOB, "alice/t", True)
        texts = set()
        for name in ("alice/t", "alice/u"):
            with pytest.raises(TopicNotExist) as error:
                await permissions.set_accepted(CAROL, name, True)
            texts.add(str(error.value).replace(name, "X"))
        assert len(texts) == 1
        for caller in (ALICE, ROOT):
            with pytest.raises(BadRequest, match="nothing is granted"):
                await permissions.set_accepted(caller, "alice/t", True)
        with pytest.raises(PermissionDenied, match="accept a grant"):
            await permissions.set_accepted(TO_PUT, "alice/t", True)


@pytest.mark.parametrize("mask", [8, 12, 15, 16, 31])
async def test_changing_the_topic_cannot_be_granted(mask: int) -> None:
    async with world() as w:
        topic = await w.topic(ALICE)
        with pytest.raises(PermissionDenied):
            await w.broker.permissions.set_permission(
                ALICE, topic.resource, BOB_GRANT, Permission(mask)
            )


async def test_nothing_cannot_be_granted_and_the_owner_not_revoked() -> None:
    async with world() as w:
        topic, permissions = await w.topic(ALICE), w.broker.permissions
        with pytest.raises(BadRequest):
            await permissions.set_permission(ALICE, topic.resource, BOB_GRANT, Permission(0))
        with pytest.raises(PermissionDenied):
            await permissions.revoke_permission(
                ALICE, topic.resource, Grantee(GrantType.DEVELOPER, "alice")
            )


async def test_permissions_that_are_added_at_the_same_time_add_up() -> None:
    async with world() as w:
        topic, permissions = await w.topic(ALICE), w.broker.permissions
        bits = (Permission.GET_MESSAGE, Permission.PUT_MESSAGE, Permission.DESCRIBE_TOPIC)
        await asyncio.gather(
            *(permissions.grant_more(ALICE, topic.resource, "bob", bit) for bit in bits)
        )
        assert permissions.list_permission(ALICE, topic.resource)["bob"] == 7
        await asyncio.gather(
            *(permissions.revoke_some(ALICE, topic.resource, "bob", bit) for bit in bits[:2])
        )
        assert permissions.list_permission(ALICE, topic.resource)["bob"] == 4
        await permissions.revoke_some(ALICE, topic.resource, "bob", Permission(7))
        await permissions.revoke_some(ALICE, topic.resource, "bob", Permission(7))
        assert "bob" not in permissions.list_permission(ALICE, topic.resource)
        with pytest.raises(PermissionDenied):
            await permissions.grant_more(
                ALICE, topic.resource, "bob", Permission.CHANGE_TOPIC | Permission.GET_MESSAGE
            )

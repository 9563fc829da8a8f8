import pytest
from tests.unit.broker.support import world
from tests.unit.catalog.support import ALICE, BOB, ROOT
from tests.unit.gateway.kafka.handlers.admin.acl_calls import (
    DESCRIBE,
    READ,
    WRITE,
    create,
    delete,
    describe,
    entry,
)
from tests.unit.gateway.kafka.handlers.admin.support import Client

from opentalos.gateway.kafka.handlers.admin import acls
from opentalos.gateway.kafka.handlers.admin.acl_terms import (
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
)
from opentalos.model.identity import Grantee, GrantType, Permission
from opentalos.wire.kafka.errors import ErrorCode


@pytest.mark.parametrize("version", range(1, 4))
async def test_entries_are_permissions_and_permissions_are_entries(version: int) -> None:
    async with world() as w:
        topic, client = await w.topic(ALICE), Client(w, ALICE)
        made = await create(
            client, entry("User:bob", READ), entry("User:bob", DESCRIBE),
            entry("User:CLacme", WRITE), entry("User:ANONYMOUS", DESCRIBE), version=version,
        )  # fmt: skip
        assert [(result.error_code, result.error_message) for result in made] == [(0, None)] * 4
        masks = dict(w.broker.permissions.list_permission(ALICE, topic.resource))
        assert masks == {"alice": 31, "bob": 6, "CLacme": 1, "guest": 4}
        assert await describe(client, version) == [
            ("t", "User:bob", "READ"),
            ("t", "User:bob", "DESCRIBE"),
            ("t", "User:CLacme", "WRITE"),
            ("t", "User:ANONYMOUS", "DESCRIBE"),
        ]
        (taken,) = await delete(
            client, {"principal_filter": "User:bob", "operation": int(READ)}, version=version
        )
        (matched,) = taken.matching_acls
        assert (matched.principal, matched.operation, matched.host) == ("User:bob", READ, "*")
        assert (matched.error_code, matched.resource_name) == (0, "t")
        assert w.broker.permissions.list_permission(ALICE, topic.resource)["bob"] == 4
        (rest,) = await delete(client, {}, version=version)
        assert len(rest.matching_acls) == 3
        assert await describe(client, version) == []
        assert dict(w.broker.permissions.list_permission(ALICE, topic.resource)) == {"alice": 31}


async def test_entries_add_to_what_was_granted_before() -> None:
    async with world() as w:
        topic, client = await w.topic(ALICE), Client(w, ALICE)
        team = Grantee(GrantType.APP_USER, "CIblue")
        grant = w.broker.permissions.set_permission
        await grant(ALICE, topic.resource, team, Permission.DESCRIBE_TOPIC)
        await create(client, entry("User:CIblue", READ))
        (stored,) = w.broker.topics.find_topic(ALICE, "t").acl.items()
        assert stored == (team, 6)


async def test_filters_select() -> None:
    async with world() as w:
        client = Client(w, ALICE)
        for name in ("t", "u"):
            await w.topic(ALICE, name)
            for user in ("User:bob", "User:carol"):
                await create(client, entry(user, READ, name), entry(user, WRITE, name))
        everything = await describe(client)
        assert len(everything) == 8
        for fields, expected in (
            ({"resource_name_filter": "t"}, [row for row in everything if row[0] == "t"]),
            (
                {"principal_filter": "User:bob", "operation": int(WRITE)},
                [("t", "User:bob", "WRITE"), ("u", "User:bob", "WRITE")],
            ),
            ({"pattern_type_filter": int(PatternType.LITERAL)}, everything),
            (
                {"pattern_type_filter": int(PatternType.MATCH), "resource_name_filter": "u"},
                [row for row in everything if row[0] == "u"],
            ),
            ({"host_filter": "*", "permission_type": int(PermissionType.ALLOW)}, everything),
            ({"resource_type_filter": int(ResourceType.TOPIC)}, everything),
            ({"pattern_type_filter": int(PatternType.PREFIXED)}, []),
            ({"resource_type_filter": int(ResourceType.GROUP)}, []),
            ({"host_filter": "10.0.0.1"}, []),
            ({"permission_type": int(PermissionType.DENY)}, []),
            ({"operation": int(AclOperation.ALL)}, []),
            ({"operation": int(AclOperation.CREATE)}, []),
            ({"principal_filter": "User:dave"}, []),
            ({"principal_filter": "User:*"}, []),
            ({"principal_filter": "Group:bob"}, []),
            ({"resource_name_filter": "*"}, []),
            ({"resource_name_filter": "no such topic"}, []),
        ):
            assert await describe(client, **fields) == expected, fields
        for fields in (
            {"operation": 0}, {"resource_type_filter": 0}, {"permission_type": 9},
            {"pattern_type_filter": 0},
        ):  # fmt: skip
            assert await describe(client, **fields) == "INVALID_REQUEST"
            (refused,) = await delete(client, fields)
            assert refused.error_code == ErrorCode.INVALID_REQUEST


async def test_grantees_see_only_what_concerns_them_and_change_nothing() -> None:
    async with world() as w:
        await w.topic(ALICE)
        every = (READ, DESCRIBE)
        for user in ("User:bob", "User:carol"):
            await create(Client(w, ALICE), *(entry(user, operation) for operation in every))
        bob = Client(w, BOB)
        own = [("alice/t", "User:bob", "READ"), ("alice/t", "User:bob", "DESCRIBE")]
        assert await describe(bob) == own
        (denied,) = await create(bob, entry("User:dave", READ, "alice/t"))
        assert denied.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        (result,) = await delete(bob, {})
        assert len(result.matching_acls) == 2
        assert {each.error_code for each in result.matching_acls} == {
            ErrorCode.TOPIC_AUTHORIZATION_FAILED
        }
        assert len(await describe(Client(w, ROOT))) == 4


async def test_unknown_and_not_granted_are_answered_alike() -> None:
    async with world() as w:
        await w.topic(ALICE)
        await create(Client(w, ALICE), entry("User:carol", READ))
        bob = Client(w, BOB)
        secret, unknown = await create(
            bob, entry("User:bob", READ, "alice/t"), entry("User:bob", READ, "alice/u")
        )
        assert secret.error_code == unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert secret.error_message == unknown.error_message.replace("/u", "/t")
        assert await describe(bob) == []
        for name in ("alice/t", "alice/u"):
            assert await describe(bob, resource_name_filter=name) == []
            (result,) = await delete(bob, {"resource_name_filter": name})
            assert (result.error_code, list(result.matching_acls)) == (0, [])


async def test_a_filter_that_matches_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "ENTRIES_MAX", 1)
    async with world() as w:
        await w.topic(ALICE)
        client = Client(w, ALICE)
        await create(client, entry("User:bob", READ), entry("User:bob", WRITE))
        assert await describe(client) == "INVALID_REQUEST"
        assert len(await describe(client, operation=int(READ))) == 1

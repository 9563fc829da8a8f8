from dataclasses import replace

import pytest
from tests.unit.broker.support import world
from tests.unit.catalog.support import BOB

from opentalos.broker.admin.principals import PrincipalService
from opentalos.broker.values import NewTopic
from opentalos.model.errors import BadRequest, PermissionDenied, PrincipalNotExist
from opentalos.model.identity import GUEST, KeyLimits, Principal, Scope


async def test_the_first_start_makes_root_who_makes_everybody_else() -> None:
    async with world() as w:
        principals = w.broker.principals
        assert not principals.has_root()
        root = await principals.ensure_root("rootkey", "root-secret")
        assert principals.has_root()
        alice = await principals.create(root, "alice", organisation="CLacme")
        issued = await principals.create_key(root, "alice")
        await w.restart()
        principals = w.broker.principals
        key = principals.key(issued.key_id)
        assert key is not None
        assert key.principal == alice
        assert key.secret.decode() == issued.secret
        assert principals.key("nobody") is None


async def test_principals_rotate_only_their_own_keys() -> None:
    async with world() as w:
        principals = w.broker.principals
        root = await principals.ensure_root("rootkey", "root-secret")
        alice = await principals.create(root, "alice")
        first = await principals.create_key(root, "alice")
        second = await principals.create_key(alice, "alice")
        await principals.disable_key(alice, first.key_id)
        await principals.create(root, "bob")
        for attempt in (
            principals.create_key(BOB, "alice"),
            principals.create_key(GUEST, "guest"),
            principals.disable_key(BOB, second.key_id),
            principals.disable_key(BOB, "unknown"),
            principals.set_disabled(BOB, "alice", True),
            principals.create(alice, "eve"),
        ):
            with pytest.raises(PermissionDenied):
                await attempt
        with pytest.raises(PrincipalNotExist):
            await principals.disable_key(root, "unknown")
        assert [info.principal.id for info in principals.list_principals(alice)] == ["alice"]
        assert [bool(principals.find(who, "alice")) for who in (alice, root, BOB, GUEST)] == [
            True,
            True,
            False,
            False,
        ]
        assert principals.find(root, "nobody") is None
        listed = principals.list_principals(root)
        assert [info.principal.id for info in listed] == ["alice", "bob", "root"]


async def test_a_locked_out_principal_has_no_key() -> None:
    async with world() as w:
        principals = w.broker.principals
        root = await principals.ensure_root("rootkey", "root-secret")
        await principals.create(root, "alice")
        issued = await principals.create_key(root, "alice")
        await principals.set_disabled(root, "alice", True)
        key = principals.key(issued.key_id)
        assert key is not None
        assert key.disabled


async def test_no_key_creates_one_that_may_do_more() -> None:
    async with world() as w:
        principals = w.broker.principals
        root = await principals.ensure_root("rootkey", "root-secret")
        await principals.create(root, "alice")
        limits = KeyLimits(scopes=(Scope.MANAGE, Scope.PUT), addresses=("10.0.0.0/8",))
        limited = await _caller(w.broker.principals, root, limits)
        inherited = await principals.create_key(limited, "alice")
        found = principals.key(inherited.key_id)
        assert found is not None
        assert found.limits == limits
        narrower = KeyLimits(scopes=(Scope.PUT,), addresses=("10.1.0.0/16",))
        await principals.create_key(limited, "alice", narrower)
        for wider in (KeyLimits(), KeyLimits(scopes=(Scope.PUT,)), KeyLimits(addresses=("::/0",))):
            with pytest.raises(PermissionDenied, match="may do more"):
                await principals.create_key(limited, "alice", wider)
        unlimited = await principals.create_key(root, "alice")
        with pytest.raises(PermissionDenied, match="may do more"):
            await principals.rotate_key(limited, unlimited.key_id)
        writer = await _caller(principals, root, KeyLimits(scopes=(Scope.PUT,)))
        for attempt in (
            principals.create_key(writer, "alice"),
            principals.rotate_key(writer, unlimited.key_id),
            principals.disable_key(writer, unlimited.key_id),
        ):
            with pytest.raises(PermissionDenied):
                await attempt


async def test_a_rotated_key_keeps_its_limits() -> None:
    async with world() as w:
        principals = w.broker.principals
        root = await principals.ensure_root("rootkey", "root-secret")
        await principals.create(root, "alice")
        now_ms = w.broker.context.clock.wall_ms()
        limits = KeyLimits(scopes=(Scope.GET,), expires_ms=now_ms + 1_000_000)
        first = await principals.create_key(root, "alice", limits)
        second = principals.key((await principals.rotate_key(root, first.key_id)).key_id)
        assert second is not None
        assert second.limits == limits
        await principals.disable_key(root, first.key_id)
        longer = await principals.rotate_key(root, first.key_id, now_ms + 2_000_000)
        third = principals.key(longer.key_id)
        assert third is not None
        assert third.limits == KeyLimits(scopes=(Scope.GET,), expires_ms=now_ms + 2_000_000)


async def test_a_key_gets_another_end_and_keeps_its_limits() -> None:
    async with world() as w:
        principals, ends = w.broker.principals, w.broker.principals.ends
        root = await principals.ensure_root("rootkey", "root-secret")
        alice = await principals.create(root, "alice")
        now_ms = w.broker.context.clock.wall_ms()
        limits = KeyLimits(scopes=(Scope.GET,), addresses=("10.0.0.0/8",))
        issued = await principals.create_key(root, "alice", limits)
        for expires_ms in (now_ms + 1_000_000, now_ms + 2_000_000, 0):
            await ends.change(alice, issued.key_id, expires_ms)
            key = principals.key(issued.key_id)
            assert key is not None
            assert key.limits == replace(limits, expires_ms=expires_ms)
            assert key.secret.decode() == issued.secret
        plain = await principals.create_key(root, "alice")
        for expires_ms in (now_ms + 1_000_000, 0):
            await ends.change(root, plain.key_id, expires_ms)
        key = principals.key(plain.key_id)
        assert key is not None
        assert key.limits is None
        with pytest.raises(BadRequest, match="has passed"):
            await ends.change(root, plain.key_id, now_ms)
        with pytest.raises(PrincipalNotExist):
            await ends.change(root, "unknown", 0)


async def test_a_key_that_has_ended_does_not_come_back() -> None:
    async with world() as w:
        principals, ends = w.broker.principals, w.broker.principals.ends
        root = await principals.ensure_root("rootkey", "root-secret")
        await principals.create(root, "alice")
        now_ms = w.broker.context.clock.wall_ms()
        short = await principals.create_key(root, "alice", KeyLimits(expires_ms=now_ms + 1_000))
        disabled = await principals.create_key(root, "alice")
        await principals.disable_key(root, disabled.key_id)
        w.clock.now_ms += 2_000
        for key_id in (short.key_id, disabled.key_id):
            with pytest.raises(BadRequest, match="it has ended"):
                await ends.change(root, key_id, 0)


async def test_nobody_lets_a_key_live_longer_than_its_own() -> None:
    async with world() as w:
        principals, ends = w.broker.principals, w.broker.principals.ends
        root = await principals.ensure_root("rootkey", "root-secret")
        await principals.create(root, "alice")
        await principals.create(root, "bob")
        later_ms = w.broker.context.clock.wall_ms() + 1_000_000
        limits = KeyLimits(scopes=(Scope.MANAGE,), expires_ms=later_ms)
        limited = await _caller(principals, root, limits)
        own = next(key for key in principals.list_principals(root)[0].keys if key.limits == limits)
        await ends.change(limited, own.key_id, later_ms - 1_000)
        for expires_ms in (later_ms + 1, 0):
            with pytest.raises(PermissionDenied, match="may do more"):
                await ends.change(limited, own.key_id, expires_ms)
        reader = await _caller(principals, root, KeyLimits(scopes=(Scope.GET,)))
        wide = await principals.create_key(root, "alice")
        others = await principals.create_key(root, "bob")
        for caller, key_id in (
            (limited, wide.key_id),
            (reader, own.key_id),
            (limited, others.key_id),
            (BOB, wide.key_id),
            (BOB, "unknown"),
            (GUEST, wide.key_id),
        ):
            with pytest.raises(PermissionDenied):
                await ends.change(caller, key_id, later_ms - 2_000)


async def test_roles_are_given_by_administrators_only() -> None:
    async with world() as w:
        principals = w.broker.principals
        root = await principals.ensure_root("rootkey", "root-secret")
        viewer = await principals.create(root, "vera", role="viewer")
        assert len(principals.list_principals(viewer)) == 2
        assert principals.find(viewer, "root") is not None
        with pytest.raises(PermissionDenied):
            await principals.set_role(viewer, "vera", "administrator")
        with pytest.raises(PermissionDenied):
            await principals.create(viewer, "eve")
        await principals.set_role(root, "vera", "user")
        found = principals.find(root, "vera")
        assert found is not None
        assert len(principals.list_principals(found.principal)) == 1
        with pytest.raises(BadRequest):
            await principals.create(root, "eve", role="king")


async def test_only_callers_that_may_manage_create_resources() -> None:
    async with world() as w:
        principals = w.broker.principals
        root = await principals.ensure_root("rootkey", "root-secret")
        await principals.create(root, "alice")
        writer = await _caller(principals, root, KeyLimits(scopes=(Scope.PUT, Scope.GET)))
        manager = await _caller(principals, root, KeyLimits(scopes=(Scope.MANAGE,)))
        agent = await principals.create(root, "agent", role="agent")
        for caller in (writer, agent):
            with pytest.raises(PermissionDenied, match="not allowed to create a topic"):
                await w.broker.topics.create_topic(caller, NewTopic(name="orders", partitions=1))
        await w.broker.topics.create_topic(manager, NewTopic(name="orders", partitions=1))
        assert w.broker.topics.list_topics(writer) == []


async def test_the_last_use_of_a_key_is_shown() -> None:
    async with world() as w:
        principals = w.broker.principals
        root = await principals.ensure_root("rootkey", "root-secret")
        info = principals.find(root, "root")
        assert info is not None
        assert info.keys[0].last_used_ms == 0
        principals.marked["rootkey"] = None
        info = principals.find(root, "root")
        assert info is not None
        assert info.keys[0].last_used_ms > 0


async def _caller(principals: PrincipalService, root: Principal, limits: KeyLimits) -> Principal:
    issued = await principals.create_key(root, "alice", limits)
    key = principals.key(issued.key_id)
    assert key is not None
    return key.principal

import pytest
from tests.unit.broker.support import world
from tests.unit.catalog.support import BOB

from opentalos.model.errors import PermissionDenied, PrincipalNotExist
from opentalos.model.identity import GUEST


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

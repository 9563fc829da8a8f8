import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.unit.catalog.support import CountingClock, PlainBox

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.catalog.principals.principals import LIVE_KEYS_TOTAL_MAX, PrincipalDirectory
from opentalos.model.errors import (
    BadRequest,
    ConfigError,
    InvalidName,
    PrincipalExists,
    PrincipalNotExist,
    QuotaExceeded,
)
from opentalos.model.identity import KeyLimits, Role, Scope


@pytest.fixture
async def storage() -> MemoryStorage:
    return MemoryStorage()


async def _open(storage: MemoryStorage, key: bytes = b"k") -> PrincipalDirectory:
    directory = PrincipalDirectory(MemoryMetaStore(storage), CountingClock(), PlainBox(key))
    await directory.start()
    return directory


@pytest.fixture
async def directory(storage: MemoryStorage) -> AsyncIterator[PrincipalDirectory]:
    directory = await _open(storage)
    yield directory
    await directory.close()


async def test_a_key_works_after_a_restart_and_its_secret_is_not_stored_openly(
    directory: PrincipalDirectory, storage: MemoryStorage
) -> None:
    alice = await directory.create("alice", "", "", admin=False)
    issued = await directory.create_key("alice")
    second = await _open(storage)
    key = second.key(issued.key_id)
    assert key is not None
    assert (key.principal, key.secret, key.disabled) == (alice, issued.secret.encode(), False)
    stored = [record.record.value for record in storage.records.values()]
    assert not any(issued.secret.encode() in value for value in stored)
    await second.close()


async def test_another_server_key_is_refused_at_start(
    directory: PrincipalDirectory, storage: MemoryStorage
) -> None:
    await directory.create("alice", "", "", admin=False)
    await directory.create_key("alice")
    with pytest.raises(ConfigError, match="record principals/alice"):
        await _open(storage, b"other")


async def test_two_keys_live_at_once_so_that_they_can_rotate(
    directory: PrincipalDirectory,
) -> None:
    await directory.create("alice", "", "", admin=False)
    first, second = await directory.create_key("alice"), await directory.create_key("alice")
    with pytest.raises(QuotaExceeded, match="limit 2, measured 2"):
        await directory.create_key("alice")
    await directory.disable_key(first.key_id)
    third = await directory.create_key("alice")
    states = {
        issued.key_id: key.disabled
        for issued in (first, second, third)
        if (key := directory.key(issued.key_id))
    }
    assert list(states.values()) == [True, False, False]


async def test_disabled_keys_do_not_pile_up(directory: PrincipalDirectory) -> None:
    await directory.create("alice", "", "", admin=False)
    issued = []
    for _ in range(12):
        issued.append(await directory.create_key("alice"))
        await directory.disable_key(issued[-1].key_id)
    await directory.create_key("alice")
    assert len(directory.list_all()[0].keys) == 9
    assert directory.key(issued[0].key_id) is None


async def test_key_ids_of_organisation_members_start_with_ak(
    directory: PrincipalDirectory,
) -> None:
    await directory.create("alice", "", "", admin=False)
    await directory.create("carol", "CLacme", "CIred", admin=False)
    assert (await directory.create_key("carol")).key_id.startswith("AK")
    assert not (await directory.create_key("alice")).key_id.startswith(("AK", "EAK"))


async def test_billing_numbers_are_unique_even_across_servers(storage: MemoryStorage) -> None:
    servers = [await _open(storage) for _ in range(3)]
    made = await asyncio.gather(
        *(server.create(f"user{index}", "", "", False) for index, server in enumerate(servers))
    )
    assert sorted(principal.number for principal in made) == [1, 2, 3]
    for server in servers:
        await server.close()


async def test_a_principal_that_is_locked_out_has_no_live_key(
    directory: PrincipalDirectory,
) -> None:
    await directory.create("alice", "", "", admin=False)
    issued = await directory.create_key("alice")
    await directory.change("alice", disabled=True)
    key = directory.key(issued.key_id)
    assert key is not None
    assert key.disabled
    await directory.change("alice", disabled=False)
    key = directory.key(issued.key_id)
    assert key is not None
    assert not key.disabled


async def test_the_root_key_is_made_once_and_can_be_replaced(
    directory: PrincipalDirectory, storage: MemoryStorage
) -> None:
    root = await directory.ensure_root("rootkey", "secret-1")
    versions = {path: stored.record.version for path, stored in storage.records.items()}
    assert await directory.ensure_root("rootkey", "secret-1") == root
    assert {p: s.record.version for p, s in storage.records.items()} == versions
    assert root.admin
    await directory.ensure_root("rootkey", "secret-2")
    key = directory.key("rootkey")
    assert key is not None
    assert key.secret == b"secret-2"


async def test_a_third_root_key_retires_the_oldest(directory: PrincipalDirectory) -> None:
    for key_id in ("one", "two", "three"):
        await directory.ensure_root(key_id, "secret-of-it")
    disabled = {key.key_id: key.disabled for key in directory.list_all()[0].keys}
    assert disabled == {"one": True, "two": False, "three": False}


async def test_a_root_key_id_of_another_principal_is_refused(directory: PrincipalDirectory) -> None:
    await directory.create("alice", "", "", admin=False)
    issued = await directory.create_key("alice")
    with pytest.raises(BadRequest, match="belongs to alice"):
        await directory.ensure_root(issued.key_id, "secret-1")
    for key_id, secret in (("", "secret-1"), ("a:b", "secret-1"), ("ok", "short")):
        with pytest.raises(BadRequest):
            await directory.ensure_root(key_id, secret)


@pytest.mark.parametrize(
    ("principal_id", "organisation", "team"),
    [
        ("guest", "", ""),
        ("", "", ""),
        ("a/b", "", ""),
        ("..", "", ""),
        ("x" * 129, "", ""),
        ("alice", "acme", ""),
        ("alice", "CLacme", "red"),
        ("CLacme", "CLother", ""),
        ("CLacme", "", "CIred"),
        ("CIred", "CLacme", "CIblue"),
    ],
)
async def test_an_id_that_could_be_taken_for_another_is_refused(
    directory: PrincipalDirectory, principal_id: str, organisation: str, team: str
) -> None:
    with pytest.raises(InvalidName):
        await directory.create(principal_id, organisation, team, admin=False)


async def test_organisations_and_teams_are_principals_too(directory: PrincipalDirectory) -> None:
    organisation = await directory.create("CLacme", "", "", admin=False)
    team = await directory.create("CIred", "CLacme", "", admin=False)
    assert (organisation.owner_id, team.owner_id, team.team) == ("CLacme", "CLacme", "CIred")
    with pytest.raises(PrincipalExists):
        await directory.create("CLacme", "", "", admin=False)


async def test_unknown_principals_and_keys_are_named(directory: PrincipalDirectory) -> None:
    with pytest.raises(PrincipalNotExist, match="bob"):
        await directory.create_key("bob")
    with pytest.raises(PrincipalNotExist, match="DKX"):
        await directory.disable_key("DKX")
    assert directory.key("DKX") is None


async def test_limits_and_role_are_there_after_a_restart(
    directory: PrincipalDirectory, storage: MemoryStorage
) -> None:
    await directory.create("alice", "", "", False, Role.VIEWER)
    now_ms = CountingClock().now_ms
    limits = KeyLimits(
        scopes=(Scope.PUT, Scope.DESCRIBE), expires_ms=now_ms + 1, addresses=("10.0.0.0/8",)
    )
    issued = await directory.create_key("alice", limits)
    second = await _open(storage)
    key = second.key(issued.key_id)
    assert key is not None
    assert (key.principal.role, key.principal.limits, key.limits) == (Role.VIEWER, limits, limits)
    assert second.get("alice") == directory.get("alice")
    await second.close()


async def test_keys_for_different_purposes_do_not_take_each_others_place(
    directory: PrincipalDirectory,
) -> None:
    await directory.create("alice", "", "", admin=False)
    for scopes in ((), (Scope.PUT,), (Scope.GET,)):
        await directory.create_key("alice", KeyLimits(scopes=scopes))
        await directory.create_key("alice", KeyLimits(scopes=scopes))
        with pytest.raises(QuotaExceeded, match="limit 2, measured 2"):
            await directory.create_key("alice", KeyLimits(scopes=scopes))
    for index in range(LIVE_KEYS_TOTAL_MAX - 6):
        await directory.create_key("alice", KeyLimits(addresses=(f"10.0.0.{index}/32",)))
    with pytest.raises(QuotaExceeded, match="limit 16, measured 16"):
        await directory.create_key("alice", KeyLimits(addresses=("10.9.0.0/16",)))


async def test_an_expired_key_makes_room_for_its_successor(storage: MemoryStorage) -> None:
    clock = CountingClock()
    directory = PrincipalDirectory(MemoryMetaStore(storage), clock, PlainBox(b"k"))
    await directory.start()
    await directory.create("alice", "", "", admin=False)
    for _ in range(12):
        await directory.create_key("alice", KeyLimits(expires_ms=clock.now_ms + 1))
        await directory.create_key("alice", KeyLimits(expires_ms=clock.now_ms + 1))
        clock.now_ms += 1
    assert len(directory.list_all()[0].keys) == 10
    with pytest.raises(BadRequest, match="its expiry has passed"):
        await directory.create_key("alice", KeyLimits(expires_ms=clock.now_ms))
    networks = tuple(f"10.0.{index}.0/24" for index in range(33))
    with pytest.raises(BadRequest, match="33 networks are too many"):
        await directory.create_key("alice", KeyLimits(addresses=networks))
    await directory.close()


async def test_a_changed_role_counts_for_existing_keys(directory: PrincipalDirectory) -> None:
    await directory.ensure_root("rootkey", "secret-1")
    await directory.create("alice", "", "", admin=False)
    issued = await directory.create_key("alice")
    await directory.change("alice", role="administrator")
    key = directory.key(issued.key_id)
    assert key is not None
    assert key.principal.admin
    await directory.change("alice", role="agent")
    key = directory.key(issued.key_id)
    assert key is not None
    assert (key.principal.admin, key.principal.role) == (False, Role.AGENT)
    with pytest.raises(BadRequest, match="always administrator"):
        await directory.change("root", role="user")

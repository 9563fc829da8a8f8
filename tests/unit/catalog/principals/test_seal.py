"""Who writes to the MetaStore without the server key changes nothing of what principals may do."""

import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.unit.catalog.support import CountingClock, PlainBox

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.catalog.principals.principals import PrincipalDirectory
from opentalos.catalog.principals.record import encode_principal, principal_path
from opentalos.model.errors import PrincipalExists, PrincipalNotExist

Fields = dict[str, Any]


@pytest.fixture
async def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
def clock() -> CountingClock:
    return CountingClock()


@pytest.fixture
async def directory(
    storage: MemoryStorage, clock: CountingClock
) -> AsyncIterator[PrincipalDirectory]:
    directory = PrincipalDirectory(MemoryMetaStore(storage), clock, PlainBox())
    await directory.start()
    yield directory
    await directory.close()


async def _overwrite(
    directory: PrincipalDirectory, storage: MemoryStorage, path: str, value: bytes
) -> None:
    """What somebody with access to the store does."""
    meta = MemoryMetaStore(storage)
    found = await meta.get(path)
    if found is None:
        await meta.create(path, value)
    else:
        await meta.replace(path, value, found.version)
    await directory.records.refresh(path)


async def _value(storage: MemoryStorage, name: str) -> bytes:
    found = await MemoryMetaStore(storage).get(principal_path(name))
    assert found is not None
    return found.value


def _make_admin(fields: Fields) -> None:
    fields["admin"] = True


def _move_to_organisation(fields: Fields) -> None:
    fields["organisation"] = "CLacme"


def _enable(fields: Fields) -> None:
    fields["disabled"] = False


def _enable_key(fields: Fields) -> None:
    fields["keys"][0]["disabled"] = False


def _lift_limits(fields: Fields) -> None:
    fields["role"] = "operator"


@pytest.mark.parametrize("keeps_mac", [True, False])
@pytest.mark.parametrize(
    "forge", [_make_admin, _move_to_organisation, _enable, _enable_key, _lift_limits]
)
async def test_a_changed_record_does_not_count(
    directory: PrincipalDirectory,
    storage: MemoryStorage,
    forge: Callable[[Fields], None],
    keeps_mac: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await directory.create("mallory", "", "", admin=False)
    issued = await directory.create_key("mallory")
    await directory.disable_key(issued.key_id)
    await directory.change("mallory", disabled=True)
    fields = json.loads(await _value(storage, "mallory"))
    forge(fields)
    if not keeps_mac:
        del fields["mac"]
    path = principal_path("mallory")
    with caplog.at_level(logging.ERROR):
        await _overwrite(directory, storage, path, json.dumps(fields).encode())
    assert directory.get("mallory") is None
    assert directory.key(issued.key_id) is None
    assert path in directory.seal.refused
    assert directory.list_all() == []
    assert path in caplog.text
    with pytest.raises(PrincipalNotExist):
        await directory.change("mallory", disabled=False)
    assert "mac" not in json.loads(await _value(storage, "mallory")) or keeps_mac


async def test_a_record_cannot_be_moved_to_another_principal(
    directory: PrincipalDirectory, storage: MemoryStorage
) -> None:
    for name in ("alice", "mallory"):
        await directory.create(name, "", "", admin=name == "alice")
    theirs = await directory.create_key("mallory")
    copied = await _value(storage, "mallory")
    await _overwrite(directory, storage, principal_path("alice"), copied)
    assert directory.get("alice") is None
    key = directory.key(theirs.key_id)
    assert key is not None
    assert not key.principal.admin


async def test_a_forged_record_that_names_another_ones_key_does_not_lock_it_out(
    directory: PrincipalDirectory, storage: MemoryStorage
) -> None:
    await directory.create("alice", "", "", admin=False)
    issued = await directory.create_key("alice")
    path, copied = "principals/mallory", await _value(storage, "alice")
    await _overwrite(directory, storage, path, copied)
    await _overwrite(directory, storage, path, copied + b" ")
    assert directory.key(issued.key_id) is not None


async def test_an_older_record_of_the_same_principal_does_not_count_while_a_server_runs(
    directory: PrincipalDirectory, storage: MemoryStorage
) -> None:
    await directory.create("mallory", "", "", admin=True)
    issued = await directory.create_key("mallory")
    former = await _value(storage, "mallory")
    await directory.change("mallory", role="user")
    await _overwrite(directory, storage, principal_path("mallory"), former)
    assert directory.get("mallory") is None
    assert directory.key(issued.key_id) is None


async def test_also_an_older_record_of_a_removed_principal_does_not_count(
    directory: PrincipalDirectory, storage: MemoryStorage
) -> None:
    await directory.create("mallory", "", "", admin=True)
    former = await _value(storage, "mallory")
    await directory.change("mallory", role="user")
    path, meta = principal_path("mallory"), MemoryMetaStore(storage)
    found = await meta.get(path)
    assert found is not None
    await meta.delete(path, found.version)
    await directory.records.refresh(path)
    await _overwrite(directory, storage, path, former)
    assert directory.get("mallory") is None


async def test_an_invented_administrator_does_not_count(
    directory: PrincipalDirectory, storage: MemoryStorage
) -> None:
    other = PrincipalDirectory(MemoryMetaStore(MemoryStorage()), CountingClock(), PlainBox(b"x"))
    await other.create("mallory", "", "", admin=True)
    record = other.records.get(principal_path("mallory"))
    assert record is not None
    for value in (encode_principal(record), other.seal.encode(record)):
        await _overwrite(directory, storage, principal_path("mallory"), value)
        assert directory.get("mallory") is None


async def test_creating_a_refused_principal_again_replaces_its_record(
    directory: PrincipalDirectory, storage: MemoryStorage
) -> None:
    await directory.create("alice", "", "", admin=False)
    former = await _value(storage, "alice")
    fields = json.loads(former)
    _make_admin(fields)
    path = principal_path("alice")
    await _overwrite(directory, storage, path, json.dumps(fields).encode())
    again = await directory.create("alice", "", "", admin=False)
    assert directory.get("alice") == again
    assert not directory.seal.refused
    with pytest.raises(PrincipalExists):
        await directory.create("alice", "", "", admin=False)
    second = PrincipalDirectory(MemoryMetaStore(storage), CountingClock(), PlainBox())
    await second.start()
    assert second.get("alice") == again
    await second.close()


async def test_the_servers_owner_gets_a_refused_root_back(
    directory: PrincipalDirectory, storage: MemoryStorage
) -> None:
    await directory.ensure_root("ROOT", "a secret of the owner")
    await _overwrite(directory, storage, principal_path("root"), b'{"version":1,"id":"root",'
        b'"number":1,"organisation":"","team":"","admin":true,"created_ms":1,"disabled":false,'
        b'"keys":[]}')  # fmt: skip
    assert directory.key("ROOT") is None
    root = await directory.ensure_root("ROOT", "a secret of the owner")
    assert root.admin
    assert directory.key("ROOT") is not None


async def test_older_versions_read_a_sealed_record(
    directory: PrincipalDirectory, storage: MemoryStorage
) -> None:
    await directory.create("alice", "", "", admin=False)
    fields = json.loads(await _value(storage, "alice"))
    known = {"id", "number", "organisation", "team", "admin", "created_ms", "disabled", "keys"}
    assert fields["version"] == 1
    assert known <= set(fields)

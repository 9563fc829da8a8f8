"""Records without a MAC count until all were sealed, and never again after that."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
from tests.unit.catalog.support import CountingClock, PlainBox

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.catalog.principals.principals import PrincipalDirectory
from opentalos.catalog.principals.record import principal_path
from opentalos.catalog.principals.sealing import MARKER, PrincipalSealing, SealPlan


@dataclass
class Memory:
    """SealMemory of a server."""

    sealed: bool = False

    def note_sealed(self) -> None:
        self.sealed = True


@dataclass
class Started:
    """The parts of one server."""

    directory: PrincipalDirectory
    sealing: PrincipalSealing
    memory: Memory


Start = Callable[..., Awaitable[Started]]


@pytest.fixture
async def storage() -> MemoryStorage:
    return MemoryStorage()


@pytest.fixture
async def start(storage: MemoryStorage) -> AsyncIterator[Start]:
    started: list[Started] = []

    async def start_one(
        name: str = "", memory: Memory | None = None, again: bool = False
    ) -> Started:
        meta, clock = MemoryMetaStore(storage), CountingClock()
        directory = PrincipalDirectory(meta, clock, PlainBox())
        memory = memory or Memory()
        servers = "servers" if name else ""
        plan = SealPlan(server=name, servers=servers, memory=memory, again=again)
        sealing = PrincipalSealing(meta, clock, directory, plan)
        if name:
            await meta.create(f"servers/{name}", b"here")
        await sealing.prepare()
        await directory.start()
        started.append(Started(directory, sealing, memory))
        return started[-1]

    yield start_one
    for one in started:
        await one.sealing.close()
        await one.directory.close()


async def _write_former(storage: MemoryStorage, name: str, admin: bool = False) -> None:
    """As an older version writes it."""
    fields = {
        "version": 1, "id": name, "number": 7, "organisation": "", "team": "", "admin": admin,
        "created_ms": 1, "disabled": False, "refuse_replays": False, "keys": [],
    }  # fmt: skip
    meta, path = MemoryMetaStore(storage), principal_path(name)
    found = await meta.get(path)
    if found is None:
        await meta.create(path, json.dumps(fields).encode())
    else:
        await meta.replace(path, json.dumps(fields).encode(), found.version)


async def _remove_marker(storage: MemoryStorage) -> None:
    meta = MemoryMetaStore(storage)
    found = await meta.get(MARKER)
    assert found is not None
    await meta.delete(MARKER, found.version)


async def test_records_of_an_older_version_count_are_sealed_and_still_count(
    storage: MemoryStorage, start: Start
) -> None:
    await _write_former(storage, "alice")
    server = await start()
    assert server.directory.get("alice") is not None
    assert await server.sealing.check()
    assert server.memory.sealed
    found = await MemoryMetaStore(storage).get(principal_path("alice"))
    assert found is not None
    assert "mac" in json.loads(found.value)
    assert server.directory.get("alice") is not None
    await _write_former(storage, "mallory", admin=True)
    await server.directory.records.reload()
    assert server.directory.get("mallory") is None


async def test_after_the_marker_another_server_ignores_records_without_a_mac(
    storage: MemoryStorage, start: Start
) -> None:
    first = await start()
    await first.sealing.check()
    await _write_former(storage, "mallory", admin=True)
    second = await start()
    assert second.directory.get("mallory") is None


async def test_a_removed_marker_brings_no_record_back_and_is_written_again(
    storage: MemoryStorage, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    first = await start()
    await first.sealing.check()
    await _remove_marker(storage)
    await _write_former(storage, "mallory", admin=True)
    restarted = await start(memory=first.memory)
    assert restarted.directory.get("mallory") is None
    assert await restarted.sealing.check()
    assert restarted.directory.get("mallory") is None
    assert "was removed or changed" in caplog.text
    assert await MemoryMetaStore(storage).get(MARKER) is not None


async def test_a_marker_without_the_key_is_no_marker(storage: MemoryStorage, start: Start) -> None:
    await MemoryMetaStore(storage).create(MARKER, b'{"version":1,"mac":"AAAA"}')
    await _write_former(storage, "alice")
    server = await start()
    assert server.directory.get("alice") is not None
    assert await server.sealing.check()
    assert server.directory.get("alice") is not None


async def test_a_cluster_waits_until_every_server_knows_macs(
    storage: MemoryStorage, start: Start
) -> None:
    await MemoryMetaStore(storage).create("servers/older", b"here")
    first = await start("first")
    assert not await first.sealing.check()
    await _write_former(storage, "alice")  # by the older server
    await first.directory.records.reload()
    assert first.directory.get("alice") is not None
    found = await MemoryMetaStore(storage).get("servers/older")
    assert found is not None
    await MemoryMetaStore(storage).delete("servers/older", found.version)
    second = await start("second")
    assert not await first.sealing.check()  # the second one has announced nothing yet
    assert await second.sealing.check()
    assert await first.sealing.check()
    assert first.directory.seal.demanded
    assert second.directory.seal.demanded
    assert first.directory.get("alice") is not None


async def test_a_record_that_turned_up_unsealed_stops_counting_with_the_marker(
    storage: MemoryStorage, start: Start
) -> None:
    first, second = await start(), await start()
    await first.sealing.check()
    await _write_former(storage, "mallory", admin=True)
    await second.directory.records.reload()
    assert second.directory.get("mallory") is not None  # it has not seen the marker
    await second.sealing.check()
    assert second.directory.get("mallory") is None


async def test_the_operator_seals_again_what_an_older_version_wrote_after_a_downgrade(
    storage: MemoryStorage, start: Start
) -> None:
    first = await start()
    await first.sealing.check()
    await _write_former(storage, "alice")
    again = await start(memory=first.memory, again=True)
    assert again.directory.get("alice") is not None
    assert await again.sealing.check()
    after = await start(memory=first.memory)
    assert after.directory.get("alice") is not None


async def test_a_change_of_an_unsealed_record_seals_it(
    storage: MemoryStorage, start: Start
) -> None:
    await _write_former(storage, "alice")
    server = await start()
    await server.directory.change("alice", refuse_replays=True)
    found = await MemoryMetaStore(storage).get(principal_path("alice"))
    assert found is not None
    assert "mac" in json.loads(found.value)

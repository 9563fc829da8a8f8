"""When keys were last used."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from tests.unit.catalog.support import CountingClock, PlainBox

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.catalog.principals import key_uses
from opentalos.catalog.principals.key_uses import KeyUses, decode_uses, encode_uses
from opentalos.catalog.principals.principals import PrincipalDirectory
from opentalos.model.errors import CorruptLog, NewerFormat

INTERVAL_S = 600.0


@dataclass
class Server:
    """A directory and the uses of its keys."""

    clock: CountingClock
    storage: MemoryStorage
    directory: PrincipalDirectory
    uses: KeyUses

    def written(self) -> int:
        """How often records of uses were written."""
        return sum(
            stored.record.version
            for path, stored in self.storage.records.items()
            if path.startswith(key_uses.PREFIX)
        )


async def _server(storage: MemoryStorage) -> Server:
    clock, meta = CountingClock(), MemoryMetaStore(storage)
    directory = PrincipalDirectory(meta, clock, PlainBox(b"k"))
    await directory.start()
    uses = KeyUses(meta, clock, directory, INTERVAL_S)
    await uses.start()
    return Server(clock, storage, directory, uses)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = await _server(MemoryStorage())
    yield server
    await server.uses.close()
    await server.directory.close()


async def test_a_use_shows_at_once_and_after_a_restart(server: Server) -> None:
    await server.directory.create("alice", "", "", admin=False)
    key_id = (await server.directory.create_key("alice")).key_id
    assert server.uses.last_ms("alice", key_id) == 0
    server.uses.marked[key_id] = None
    assert server.uses.last_ms("alice", key_id) == server.clock.now_ms
    await server.uses.write()
    assert not server.uses.marked
    used_ms = server.clock.now_ms
    server.clock.now_ms += 5_000
    other = await _server(server.storage)
    assert other.uses.last_ms("alice", key_id) == used_ms
    await other.uses.close()
    await other.directory.close()


async def test_servers_of_a_cluster_write_a_use_once_per_interval(server: Server) -> None:
    await server.directory.create("alice", "", "", admin=False)
    key_id = (await server.directory.create_key("alice")).key_id
    for ahead_ms, written in ((0, 1), (1_000, 1), (600_000, 2)):
        server.clock.now_ms += ahead_ms
        server.uses.marked[key_id] = None
        await server.uses.write()
        assert server.written() == written


async def test_a_pass_writes_so_many_records_and_leaves_the_rest_to_the_next(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_uses, "PRINCIPALS_PER_PASS_MAX", 2)
    for name in ("a", "b", "c"):
        await server.directory.create(name, "", "", admin=False)
        server.uses.marked[(await server.directory.create_key(name)).key_id] = None
    await server.uses.write()
    assert (server.written(), len(server.uses.marked)) == (2, 1)
    await server.uses.write()
    assert (server.written(), len(server.uses.marked)) == (3, 0)


async def test_keys_that_are_gone_are_forgotten(server: Server) -> None:
    await server.directory.create("alice", "", "", admin=False)
    first = (await server.directory.create_key("alice")).key_id
    server.uses.marked |= {first: None, "unknown": None}
    await server.uses.write()
    assert not server.uses.marked
    await server.directory.disable_key(first)
    for _ in range(10):
        issued = await server.directory.create_key("alice")
        await server.directory.disable_key(issued.key_id)
    last = (await server.directory.create_key("alice")).key_id
    server.clock.now_ms += 600_000
    server.uses.marked[last] = None
    await server.uses.write()
    stored = [r.record.value for p, r in server.storage.records.items() if p.startswith("key-uses")]
    assert [list(decode_uses(value)) for value in stored] == [[last]]


def test_records_of_uses_have_a_version() -> None:
    assert decode_uses(encode_uses({"DK1": 5})) == {"DK1": 5}
    with pytest.raises(NewerFormat):
        decode_uses(b'{"version":2,"keys":{}}')
    for value in (b"", b"[]", b'{"version":1,"keys":[]}', b'{"version":1}'):
        with pytest.raises(CorruptLog):
            decode_uses(value)

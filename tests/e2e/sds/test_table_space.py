"""The quota of a table whose shards lie on several servers."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.e2e.memory_cluster import MemoryServer
from tests.e2e.sds.test_table_servers import servers_of
from tests.unit.broker.tables.support import ALICE, HASHED, put, remove, string
from tests.waiting import eventually_async

from opentalos.adapters.memory import MemoryRowStore
from opentalos.broker.tables.api.values import TableSpec
from opentalos.broker.tables.row_tables import rows_of
from opentalos.model.errors import OutcomeUnknown, QuotaExceeded, Unavailable
from opentalos.model.mutation import Mutation
from opentalos.sds.cell_format import decode_row
from opentalos.sds.key_format import key_of
from opentalos.sds.record_size import record_bytes

QUOTA_BYTES = 30_000
LARGE_BYTES = 6_000
SMALL, LARGE = string("x" * 1_000), string("x" * LARGE_BYTES)
USERS = [f"u{number}" for number in range(24)]  # in every shard
PLAIN_SHARDS = replace(HASHED, indexes={})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers publish five times a second, and no pass corrects what they publish."""
    monkeypatch.setattr("opentalos.catalog.tables.space.PUBLISH_S", 0.2)
    monkeypatch.setattr("opentalos.broker.tables.maintenance.space_pass.PUBLISHED_S", 3_600.0)


@pytest.fixture
async def servers() -> AsyncIterator[list[MemoryServer]]:
    async with servers_of(3) as found:
        yield found


async def write(server: MemoryServer, mutation: Mutation) -> None:
    """Until it is done; a second time makes no difference to any row."""

    async def is_written() -> bool:
        try:
            await server.broker.tables.write(ALICE, "people", mutation)
        except (Unavailable, OutcomeUnknown):
            return False
        return True

    await eventually_async("a row is written", is_written)


async def stored_bytes(server: MemoryServer) -> int:
    table = await server.broker.table_admin.describe(ALICE, "people")
    rows = await MemoryRowStore(server.storage).scan(rows_of(table), b"", b"", limit=10_000)
    schema = table.schema
    return sum(
        record_bytes(schema, key_of(schema, row.key), row.key, decode_row(row.cells), 1)
        for row in rows
    )


async def until_published(servers: list[MemoryServer]) -> int:
    """What is stored, once every server knows it."""
    stored, known = 0, set[int | None]()

    async def all_know() -> bool:
        nonlocal stored
        stored = await stored_bytes(servers[0])
        table = await servers[0].broker.table_admin.describe(ALICE, "people")
        known.clear()
        for server in servers:
            spaces = server.broker.catalogs.tables.spaces
            space = await spaces.of(table)
            assert space is not None
            known.update({await spaces.read(table.uuid), space.published_bytes, space.used_bytes})
        return known == {stored}

    what = "every server knows what is stored"
    await eventually_async(what, all_know, state=lambda: (stored, known))
    return stored


async def is_refused(server: MemoryServer, user: str) -> bool:
    """Whether there is no room for a large row."""
    try:
        await write(server, put(user, 9, city=LARGE))
    except QuotaExceeded:
        return True
    return False


async def test_servers_keep_a_quota_together(servers: list[MemoryServer]) -> None:
    spec = TableSpec(schema=PLAIN_SHARDS, quota_bytes=QUOTA_BYTES)
    await servers[0].broker.table_admin.create(ALICE, "people", spec)
    for at, user in enumerate(USERS):
        await write(servers[at % 3], put(user, 1, city=SMALL))
    stored = await until_published(servers)
    assert QUOTA_BYTES - LARGE_BYTES < stored < QUOTA_BYTES
    # Wherever a row lies, and whichever server is asked: there is no room for it.
    assert all([await is_refused(servers[at % 3], user) for at, user in enumerate(USERS)])
    assert await stored_bytes(servers[0]) == stored
    # What is removed through one server makes room at all.
    for user in USERS[:16]:
        await write(servers[1], remove(user, 1))
    await until_published(servers)
    assert not await is_refused(servers[2], USERS[0])
    assert not await is_refused(servers[0], USERS[1])
    await until_published(servers)
    # The count stays when a server leaves, be it the leader or the owner of shards.
    await servers[0].stop()
    left = servers[1:]
    assert not await is_refused(left[0], USERS[2])
    stored = await until_published(left)
    assert all([await is_refused(left[at % 2], user) for at, user in enumerate(USERS[3:])])
    await servers[0].start()
    assert all([await is_refused(servers[at % 3], user) for at, user in enumerate(USERS[3:])])
    assert await until_published(servers) == stored < QUOTA_BYTES

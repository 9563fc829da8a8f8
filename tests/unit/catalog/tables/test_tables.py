"""The copy of all tables: names, drops, and changes of other servers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.catalog.support import ALICE, BOB, CAROL
from tests.unit.catalog.tables.test_table import TABLE

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.catalog.access.plain_names import accepted_by
from opentalos.catalog.tables.table import Table, dead_table
from opentalos.catalog.tables.tables import TableCatalog, unknown_table
from opentalos.model.errors import AlreadyExists, InvalidName, TableNotExist
from opentalos.model.identity import GUEST
from opentalos.model.table import AppRight

PUBLIC = {"any": (AppRight.PUBLIC_READ,)}


@asynccontextmanager
async def catalogs(count: int = 1) -> AsyncIterator[list[TableCatalog]]:
    storage = MemoryStorage()
    made = [TableCatalog(MemoryMetaStore(storage)) for _ in range(count)]
    for item in made:
        await item.start()
    try:
        yield made
    finally:
        await asyncio.gather(*(item.close() for item in made))


def table(owner: str, name: str = "people", uuid: str = "u", **fields: Any) -> Table:
    return replace(TABLE, owner=owner, name=name, uuid=f"{owner}-{uuid}", **fields)


async def test_a_plain_name_means_the_callers_own_table_first() -> None:
    async with catalogs() as (catalog,):
        for owner in ("CLacme", "carol", "bob", "alice"):
            await catalog.create(table(owner, app_acl=PUBLIC, team_acl={}))
        for caller, name, owner in (
            (ALICE, "people", "alice"),
            (CAROL, "people", "CLacme"),
            (ALICE, "carol/people", "carol"),
            (GUEST, "CLacme/people", "CLacme"),
        ):
            found = catalog.find(caller, name)
            assert found is not None
            assert found.owner == owner
        assert catalog.find(GUEST, "people") is None
        await catalog.remove(table("CLacme", app_acl=PUBLIC, team_acl={}))
        found = catalog.find(CAROL, "people")
        assert found is not None
        assert found.owner == "carol"
        assert catalog.find(ALICE, "CLacme/people") is None


async def test_tables_that_were_not_granted_are_not_found_by_a_plain_name() -> None:
    async with catalogs() as (catalog,):
        await catalog.create(table("alice", app_acl={}, team_acl={}))
        assert catalog.find(BOB, "people") is None
        assert catalog.find(GUEST, "people") is None


async def test_a_granted_table_has_its_plain_name_while_the_grant_is_accepted() -> None:
    async with catalogs() as (catalog,):
        granted = table("alice", app_acl=PUBLIC, team_acl={})
        await catalog.create(granted)
        assert catalog.find(BOB, "people") is None
        assert "write alice/people, or accept the grant" in str(
            unknown_table(catalog.names, BOB, "people")
        )
        accepted = accepted_by(catalog.names, BOB, granted, accepted=True)
        changed = await catalog.change(granted, lambda now: replace(now, accepted=accepted))
        assert catalog.find(BOB, "people") == changed
        assert catalog.find(CAROL, "people") is None
        await catalog.change(changed, lambda now: replace(now, app_acl={}))
        public_again = await catalog.change(changed, lambda now: replace(now, app_acl=PUBLIC))
        assert public_again.accepted == {}
        assert catalog.find(BOB, "people") is None


async def test_a_dropped_table_is_only_a_name_that_is_taken() -> None:
    async with catalogs() as (catalog,):
        live = table("alice")
        await catalog.create(live)
        dead = await catalog.change(live, dead_table)
        assert catalog.find(ALICE, "people") is None
        assert catalog.by_uuid(live.uuid) is None
        assert list(catalog.dropped()) == [dead]
        with pytest.raises(AlreadyExists):
            await catalog.create(table("alice", uuid="v"))
        with pytest.raises(TableNotExist):
            await catalog.change(live, lambda now: now)
        await catalog.remove(dead)
        assert not catalog.dropped()
        await catalog.create(table("alice", uuid="v"))
        with pytest.raises(TableNotExist):  # another one has the name now
            await catalog.change(live, lambda now: replace(now, description="x"))


async def test_what_another_server_made_is_found_when_it_is_looked_for() -> None:
    async with catalogs(2) as (first, second):
        await first.create(table("alice"))
        await first.create(table("bob"))
        assert (await second.read(ALICE, "people")).owner == "alice"
        assert (await second.read(ALICE, "bob/people")).owner == "bob"
        with pytest.raises(TableNotExist, match="table nothing does not exist"):
            await second.read(ALICE, "nothing")
        with pytest.raises(InvalidName):
            await second.read(ALICE, "no name")
        changed = await first.change(table("alice"), lambda now: replace(now, description="new"))
        assert await second.refresh("alice", "people") == changed
        assert second.by_uuid(changed.uuid) == changed


async def test_listeners_hear_of_each_change() -> None:
    heard: list[tuple[Table | None, Table | None]] = []
    catalog = TableCatalog(MemoryMetaStore(), lambda old, new: heard.append((old, new)))
    await catalog.start()
    live = table("alice")
    await catalog.create(live)
    dead = await catalog.change(live, dead_table)
    await catalog.remove(dead)
    await catalog.close()
    assert heard == [(None, live), (live, dead), (dead, None)]

"""Tables of a cluster: any server answers any call, also of what another has just changed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

import pytest
from tests.e2e.memory_cluster import MemoryServer, memory_cluster
from tests.unit.broker.tables.support import (
    ALICE,
    ATTRIBUTES,
    BOB,
    HASHED,
    PLAIN,
    integer,
    key,
    put,
    streamed,
    string,
)
from tests.waiting import eventually_async

from opentalos.broker.tables.api.values import (
    BatchItem,
    Got,
    ReadItem,
    ScanQuery,
    Table,
    TableSpec,
    WriteItem,
    Written,
)
from opentalos.broker.values import NewTopic
from opentalos.catalog.access.authorize import permissions_of
from opentalos.catalog.tables.table import StreamState
from opentalos.model.datum import DataType
from opentalos.model.errors import (
    PartitionNotServing,
    TableNotEnabled,
    TableNotExist,
    Unavailable,
)
from opentalos.model.identity import Permission, Principal
from opentalos.model.mutation import Mutation, Operation
from opentalos.model.settings.tables import SdsLimits
from opentalos.model.table import AppRight, TableState, WhenFull
from opentalos.sds.key_format import row_key, shard_of


async def write(server: MemoryServer, name: str, mutation: Mutation) -> Written:
    """As clients do: what was not done is sent again."""

    async def written() -> Written | None:
        try:
            return await server.broker.tables.write(ALICE, name, mutation)
        except Unavailable:
            return None

    done = await eventually_async(f"a write to {name} is answered", written)
    assert done is not None
    return done


async def create(server: MemoryServer, name: str) -> None:
    """Once a former table of that name is gone for good."""

    async def created() -> bool:
        try:
            await server.broker.table_admin.create(ALICE, name, TableSpec(schema=HASHED))
        except Unavailable:
            return False
        return True

    await eventually_async(f"{name} is created again", created)


async def gone(server: MemoryServer, name: str) -> None:
    """Returns once a read says that there is no such table."""

    async def is_gone() -> bool:
        try:
            await server.broker.tables.get(ALICE, name, key("u", 1))
        except TableNotExist:
            return True
        return False

    await eventually_async(f"{name} is dropped", is_gone)


@asynccontextmanager
async def servers_of(
    count: int = 2, sds: SdsLimits | None = None
) -> AsyncIterator[list[MemoryServer]]:
    async with memory_cluster(count, sds=sds) as servers:
        await eventually_async(
            "every server takes part", lambda: all(len(each.ring()) >= count for each in servers)
        )
        yield servers


async def test_any_server_reads_and_writes_what_another_has_just_made() -> None:
    async with servers_of() as (first, second):
        for number in range(5):
            name = f"t{number}"
            await first.broker.table_admin.create(ALICE, name, TableSpec(schema=HASHED))
            for at, server in enumerate((second, first, second)):
                mutation = put("u", at, count=integer(at))
                assert await write(server, name, mutation) == Written(True)
            for server in (first, second):
                for at in range(3):
                    found = await server.broker.tables.get(ALICE, name, key("u", at), ("count",))
                    assert found == {"count": integer(at)}


async def test_servers_count_together() -> None:
    async with servers_of() as servers:
        await servers[0].broker.table_admin.create(ALICE, "people", TableSpec(schema=HASHED))
        add = Mutation(Operation.INCREMENT, key("u", 1), {"count": integer(1)})

        async def count(server: MemoryServer) -> None:
            for _ in range(20):
                await write(server, "people", add)

        await asyncio.gather(*map(count, servers))
        found = await servers[0].broker.tables.get(ALICE, "people", key("u", 1), ("count",))
        assert found == {"count": integer(40)}


async def test_an_altered_table_is_known_to_every_server_when_alter_returns() -> None:
    async with servers_of() as (first, second):
        admin = first.broker.table_admin
        await admin.create(ALICE, "people", TableSpec(schema=PLAIN))
        await write(second, "people", put("u", 1))
        more = replace(PLAIN, attributes={**ATTRIBUTES, "zip": DataType.STRING})
        await admin.alter(ALICE, "people", TableSpec(schema=more))
        mutation = put("u", 1, zip=string("x"))
        items: list[BatchItem] = [
            WriteItem("people", mutation),
            ReadItem("people", key("u", 1), ("zip",)),
        ]
        assert await second.broker.tables.batch(ALICE, items) == [
            Written(True),
            Got({"zip": string("x")}),
        ]
        for server in (first, second):
            query = ScanQuery(table="people", condition="zip = 'x'")
            assert len((await server.broker.tables.scan(ALICE, query)).records) == 1


async def test_a_disabled_table_takes_no_write_anywhere() -> None:
    async with servers_of() as (first, second):
        admin = first.broker.table_admin
        await admin.create(ALICE, "people", TableSpec(schema=HASHED))
        for server in (first, second):
            for at in range(4):
                await write(server, "people", put(f"u{at}", at))
        assert (await admin.disable(ALICE, "people")).state is TableState.DISABLED
        for server in (first, second):
            for at in range(4):
                with pytest.raises(TableNotEnabled):
                    await write(server, "people", put(f"u{at}", at))
        await second.broker.table_admin.enable(ALICE, "people")
        for server in (first, second):
            await write(server, "people", put("u0", 0))


async def test_a_recreated_table_is_another_one_everywhere() -> None:
    async with servers_of() as (first, second):
        for _ in range(3):
            await create(first, "people")
            assert await first.broker.tables.get(ALICE, "people", key("u", 1)) is None
            for server in (second, first):
                await write(server, "people", put("u", 1))
            assert await second.broker.tables.get(ALICE, "people", key("u", 1))
            await second.broker.table_admin.drop(ALICE, "people")
            await gone(first, "people")
            with pytest.raises(TableNotExist):
                await write(first, "people", put("u", 1))


async def test_grants_hold_on_every_server() -> None:
    async with servers_of() as (first, second):
        app = Principal(id="app", number=9)
        spec = TableSpec(schema=PLAIN, app_acl={"app": (AppRight.APP_SECRET_READ,)})
        await first.broker.table_admin.create(ALICE, "people", spec)
        assert await second.broker.tables.get(app, "alice/people", key("u", 1)) is None
        other = Principal(id="other", number=10)
        for server in (first, second):
            with pytest.raises(TableNotExist, match="table alice/people does not exist"):
                await server.broker.tables.get(other, "alice/people", key("u", 1))


async def test_records_outlive_the_server_that_wrote_them() -> None:
    async with servers_of() as servers:
        first, second = servers
        await first.broker.table_admin.create(ALICE, "people", TableSpec(schema=HASHED))
        for user in range(5):
            for at in range(2):
                await write(first, "people", put(f"u{user}", at))
        servers.remove(first)
        await first.stop()
        for user in range(5):
            await write(second, "people", put(f"u{user}", 7))
        query = ScanQuery(table="people", limit=100)
        assert len((await second.broker.tables.scan(ALICE, query)).records) == 15


def user_at(server: MemoryServer, table: Table) -> str:
    """A user whose rows this server writes."""
    for user in map("u{}".format, range(1_000)):
        number = shard_of(table.schema, row_key(table.schema, key(user, 0)))
        with suppress(PartitionNotServing):
            server.broker.context.ownership.check_shard(table.uuid, number)
            return user
    raise AssertionError("this server has no shard")


async def test_a_gap_begins_with_the_oldest_change_of_any_server() -> None:
    small = SdsLimits(pending_entries_max=8, throttle_max_s=0.05, refused_max_s=3_600.0)
    async with servers_of(sds=small) as servers:
        first, second = servers
        topic = await first.broker.topics.create_topic(BOB, NewTopic(name="t", partitions=2))
        allow = partial(first.broker.permissions.grant_to, BOB, topic.resource, ALICE.id)
        await allow(Permission.PUT_MESSAGE | Permission.GET_MESSAGE)
        schema = streamed(replace(HASHED, shards=32), "bob/t")
        spec = TableSpec(schema=schema, when_full=WhenFull.GAP)
        table = await first.broker.table_admin.create(ALICE, "people", spec)

        def states() -> list[StreamState | None]:
            known = [server.broker.catalogs.tables.by_uuid(table.uuid) for server in servers]
            return [each.streams["bob/t"] if each is not None else None for each in known]

        def may_put() -> list[bool]:
            known = [server.broker.context.topics.by_resource(topic.resource) for server in servers]
            rights = [0 if each is None else permissions_of(ALICE, each) for each in known]
            return [bool(mask & Permission.PUT_MESSAGE) for mask in rights]

        await eventually_async(
            "every server knows the table and its right",
            lambda: None not in states() and all(may_put()),
        )
        await allow(Permission.GET_MESSAGE)
        await eventually_async("every server knows the lost right", lambda: not any(may_put()))
        clock = first.broker.context.clock
        began_ms = clock.wall_ms()
        await write(first, "people", put(user_at(first, table), 0))
        ended_ms = clock.wall_ms()
        await eventually_async("the clock moves on", lambda: clock.wall_ms() > ended_ms)
        for number in range(small.pending_entries_max + 1):  # so many stop the stream at the other
            await write(second, "people", put(user_at(second, table), number))

        def gaps() -> list[int | None]:
            return [None if state is None else state.gap_ms for state in states()]

        await eventually_async(
            "the gap begins with the oldest change",
            lambda: all(gap and began_ms <= gap <= ended_ms for gap in gaps()),
            state=lambda: (began_ms, ended_ms, gaps()),
        )

"""Enabling streams: which topics they may go to, and the identity that each enabling gives."""

from dataclasses import replace

import pytest
from tests.unit.broker.support import world
from tests.unit.broker.tables.support import ADMIN, ALICE, ATTRIBUTES, BOB, PLAIN, make, streamed

from opentalos.model.change import StreamView
from opentalos.model.datum import DataType
from opentalos.model.errors import PermissionDenied, TopicNotExist, ValidationFailed
from opentalos.model.identity import Grantee, GrantType, Permission
from opentalos.model.table import StreamSpec, TableSpec, TeamRight

BOB_PUTS = {Grantee(GrantType.DEVELOPER, "alice"): Permission.PUT_MESSAGE}
BOB_SHOWS = {Grantee(GrantType.DEVELOPER, "alice"): Permission.DESCRIBE_TOPIC}


async def test_a_stream_needs_its_topic() -> None:
    async with world() as w:
        with pytest.raises(TopicNotExist, match="stream to changes: topic changes does not exist"):
            await make(w.broker, streamed(PLAIN, "changes"))
        assert await w.broker.table_admin.list(ALICE) == []
        await make(w.broker)
        with pytest.raises(TopicNotExist, match="changes"):
            await w.broker.table_admin.alter(
                ALICE, "people", TableSpec(schema=streamed(PLAIN, "changes"))
            )
        assert (await w.broker.table_admin.describe(ALICE, "people")).schema.streams == {}


async def test_a_stream_needs_the_owners_right_to_put() -> None:
    async with world() as w:
        await w.topic(BOB, "shown", acl=BOB_SHOWS)
        await w.topic(BOB, "open", acl=BOB_PUTS)
        await w.topic(BOB, "hidden")
        with pytest.raises(TopicNotExist):
            await make(w.broker, streamed(PLAIN, "bob/hidden"))
        with pytest.raises(PermissionDenied, match="stream to bob/shown"):
            await make(w.broker, streamed(PLAIN, "bob/shown"))
        table = await make(w.broker, streamed(PLAIN, "bob/open"))
        assert table.streams["bob/open"].topic_owner == "bob"


async def test_an_alter_checks_the_permissions_of_the_table_owner() -> None:
    async with world() as w:
        await make(w.broker, team_acl={"CIred": (TeamRight.ADMIN,)})
        await w.topic(BOB, "mine")
        member = replace(BOB, team="CIred")
        for caller in (member, ADMIN):
            with pytest.raises(TopicNotExist):
                await w.broker.table_admin.alter(
                    caller,
                    "alice/people",
                    TableSpec(
                        schema=streamed(PLAIN, "bob/mine"), team_acl={"CIred": (TeamRight.ADMIN,)}
                    ),
                )


async def test_each_enabling_has_a_number_of_its_own() -> None:
    async with world() as w:
        for name in ("one", "two"):
            await w.topic(ALICE, name)
        alter = w.broker.table_admin.alter
        table = await make(w.broker, streamed(PLAIN, "one"))
        assert table.streams["one"].id == 1
        both = {"one": StreamSpec(), "two": StreamSpec(view=StreamView.KEYS_ONLY)}
        table = await alter(ALICE, "people", TableSpec(schema=replace(PLAIN, streams=both)))
        assert {name: item.id for name, item in table.streams.items()} == {"one": 1, "two": 2}
        off = {**both, "one": StreamSpec(enabled=False)}
        table = await alter(ALICE, "people", TableSpec(schema=replace(PLAIN, streams=off)))
        assert {name: item.id for name, item in table.streams.items()} == {"two": 2}
        table = await alter(ALICE, "people", TableSpec(schema=replace(PLAIN, streams=both)))
        assert {name: item.id for name, item in table.streams.items()} == {"one": 3, "two": 2}


async def test_a_change_that_would_break_a_stream_is_refused() -> None:
    async with world() as w:
        await w.topic(ALICE, "changes")
        await make(w.broker, streamed(PLAIN, "changes"))
        without = {name: kind for name, kind in ATTRIBUTES.items() if name != "city"}
        for attributes in (without, {**ATTRIBUTES, "city": DataType.INT64}):
            with pytest.raises(ValidationFailed, match="city"):
                await w.broker.table_admin.alter(
                    ALICE,
                    "people",
                    TableSpec(schema=streamed(PLAIN, "changes", attributes=attributes)),
                )

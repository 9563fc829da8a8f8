"""Who may point a table's stream at a topic of the table's owner."""

from dataclasses import replace

import pytest
from tests.unit.broker.support import World, world
from tests.unit.broker.tables.support import ADMIN, ALICE, BOB, PLAIN, make, streamed

from opentalos.model.change import StreamView
from opentalos.model.errors import PermissionDenied, TopicNotExist
from opentalos.model.identity import Grantee, GrantType, Permission, Principal
from opentalos.model.table import StreamSpec, TableSchema, TableSpec, TeamRight

TEAM_ACL = {"CIred": (TeamRight.ADMIN,)}
MEMBER = replace(BOB, team="CIred")  # administers the table, and owns nothing of alice's


async def alter(w: World, caller: Principal, schema: TableSchema) -> None:
    await w.broker.table_admin.alter(
        caller, "alice/people", TableSpec(schema=schema, team_acl=TEAM_ACL)
    )


async def granted(w: World, *permissions: Permission) -> None:
    acl = {Grantee(GrantType.DEVELOPER, "bob"): permission for permission in permissions}
    await w.topic(ALICE, "changes", acl=acl)


async def test_a_tables_administrator_needs_the_right_to_put_into_the_topic() -> None:
    async with world() as w:
        await make(w.broker, team_acl=TEAM_ACL)
        await granted(w, Permission.GET_MESSAGE)
        with pytest.raises(PermissionDenied, match="the caller needs the right to put"):
            await alter(w, MEMBER, streamed(PLAIN, "changes"))
        assert not (await w.broker.table_admin.describe(ALICE, "people")).schema.streams


async def test_a_topic_that_the_caller_cannot_see_reads_as_unknown() -> None:
    async with world() as w:
        await make(w.broker, team_acl=TEAM_ACL)
        await granted(w)
        texts = []
        for name in ("changes", "nowhere", "alice/changes", "alice/nowhere"):
            with pytest.raises(TopicNotExist) as refusal:
                await alter(w, MEMBER, streamed(PLAIN, name))
            texts.append(str(refusal.value).replace("nowhere", "changes"))
        assert texts[0] == texts[1]
        assert texts[2] == texts[3]


@pytest.mark.parametrize(
    ("caller", "permissions"),
    [(ALICE, ()), (ADMIN, ()), (MEMBER, (Permission.PUT_MESSAGE,))],
    ids=["owner", "administrator", "grantee"],
)
async def test_a_caller_who_may_put_sets_the_stream(
    caller: Principal, permissions: tuple[Permission, ...]
) -> None:
    async with world() as w:
        await make(w.broker, team_acl=TEAM_ACL)
        await granted(w, *permissions)
        await alter(w, caller, streamed(PLAIN, "changes"))
        assert (await w.broker.table_admin.describe(ALICE, "people")).streams["changes"].live


async def test_a_member_of_the_owning_organisation_sets_the_stream() -> None:
    async with world() as w:
        member = replace(ALICE, organisation="CLone")
        await w.topic(member, "changes")
        spec = TableSpec(schema=streamed(PLAIN, "changes"))
        table = await w.broker.table_admin.create(member, "people", spec)
        assert table.streams["changes"].topic_owner == "CLone"


async def test_changing_a_stream_needs_the_right_and_keeping_it_does_not() -> None:
    async with world() as w:
        await granted(w)
        await make(w.broker, streamed(PLAIN, "changes"), team_acl=TEAM_ACL)
        await alter(w, MEMBER, streamed(PLAIN, "changes", ttl_s=90_000))
        keys = {"changes": StreamSpec(view=StreamView.KEYS_ONLY)}
        off = {"changes": StreamSpec(view=StreamView.MUTATE_LOG, enabled=False)}
        with pytest.raises(TopicNotExist):
            await alter(w, MEMBER, replace(PLAIN, streams=keys))
        await alter(w, MEMBER, replace(PLAIN, streams=off))
        with pytest.raises(TopicNotExist):
            await alter(w, MEMBER, streamed(PLAIN, "changes"))
        await alter(w, ADMIN, streamed(PLAIN, "changes"))

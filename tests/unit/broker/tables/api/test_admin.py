"""The life of tables: create, alter, drop, enable, disable, describe, list."""

from dataclasses import replace

import pytest
from tests.unit.broker.support import world
from tests.unit.broker.tables.support import (
    ADMIN,
    ALICE,
    ATTRIBUTES,
    BOB,
    HASHED,
    PLAIN,
    fill,
    integer,
    key,
    make,
    put,
    string,
)

from opentalos.broker.tables.api.values import ScanQuery
from opentalos.broker.tables.row_tables import entries_of, rows_of
from opentalos.model.datum import DataType
from opentalos.model.errors import (
    BadRequest,
    InvalidName,
    NotFound,
    NotSupported,
    PermissionDenied,
    QuotaExceeded,
    SizeExceeded,
    TableExists,
    TableNotExist,
    ValidationFailed,
)
from opentalos.model.identity import GUEST, KeyLimits, Principal, Scope
from opentalos.model.settings.tables import SdsLimits
from opentalos.model.table import (
    AppRight,
    KeyPart,
    TableSchema,
    TableSpec,
    TableState,
    TeamRight,
    WhenFull,
)


async def test_a_created_table_is_enabled_and_described() -> None:
    async with world() as w:
        made = await make(w.broker, description="who lives where", read_capacity=7)
        assert made.state is TableState.ENABLED
        found = await w.broker.table_admin.describe(ALICE, "people")
        assert found == made
        assert (found.owner, found.description, found.read_capacity) == (
            "alice", "who lives where", 7,
        )  # fmt: skip
        assert (found.schema.version, found.when_full) == (1, WhenFull.REFUSE)
        assert await w.broker.table_admin.state(ALICE, "alice/people") is TableState.ENABLED


@pytest.mark.parametrize(
    ("name", "spec", "error"),
    [
        ("no name", TableSpec(schema=PLAIN), InvalidName),
        ("t", TableSpec(schema=replace(PLAIN, primary=())), ValidationFailed),
        ("t", TableSpec(schema=replace(PLAIN, shards=2)), ValidationFailed),
        ("t", TableSpec(schema=PLAIN, read_capacity=0), ValidationFailed),
        ("t", TableSpec(schema=replace(HASHED, shards=10_000)), SizeExceeded),
        (
            "t",
            TableSpec(schema=PLAIN, app_acl={"app": (AppRight.APP_USER_READ,)}),
            NotSupported,
        ),
        ("CLother/t", TableSpec(schema=PLAIN), PermissionDenied),
    ],
)
async def test_what_no_table_can_be_is_refused(
    name: str, spec: TableSpec, error: type[Exception]
) -> None:
    async with world() as w:
        with pytest.raises(error):
            await w.broker.table_admin.create(ALICE, name, spec)
        assert await w.broker.table_admin.list(ALICE) == []


async def test_a_name_is_taken_until_its_table_is_dropped() -> None:
    async with world() as w:
        first = await make(w.broker, HASHED)
        with pytest.raises(TableExists):
            await make(w.broker)
        await fill(w.broker, 1, 1)
        await w.broker.table_admin.drop(ALICE, "people")
        with pytest.raises(TableNotExist):
            await w.broker.tables.get(ALICE, "people", key("u0", 0))
        rows = w.broker.table_upkeep.access.rows
        for gone in (rows_of(first), entries_of(first, "by_city")):
            with pytest.raises(NotFound):
                await rows.scan(gone, b"", b"", limit=1)
        second = await make(w.broker)
        assert second.uuid != first.uuid
        assert await w.broker.tables.get(ALICE, "people", key("u0", 0)) is None


async def test_tables_of_one_owner_and_of_all_are_limited() -> None:
    async with world(sds=SdsLimits(user_tables=1, tables_max=2)) as w:
        await make(w.broker)
        with pytest.raises(QuotaExceeded, match="tables of alice: limit 1, measured 1"):
            await make(w.broker, name="second")
        await w.broker.table_admin.create(BOB, "t", TableSpec(schema=PLAIN))
        carol = Principal(id="carol", number=9)
        with pytest.raises(QuotaExceeded, match="of this service: limit 2"):
            await w.broker.table_admin.create(carol, "t", TableSpec(schema=PLAIN))
        await w.broker.table_admin.drop(ALICE, "people")
        await make(w.broker, name="second")


async def test_alter_changes_what_may_change_and_raises_the_version() -> None:
    async with world() as w:
        before = await make(w.broker)
        more = replace(PLAIN, attributes={**ATTRIBUTES, "zip": DataType.STRING}, ttl_s=60)
        spec = TableSpec(schema=more, description="d", write_capacity=3)
        after = await w.broker.table_admin.alter(ALICE, "people", spec)
        assert (after.schema.version, after.uuid) == (2, before.uuid)
        assert (after.schema.ttl_s, after.description, after.write_capacity) == (60, "d", 3)
        again = await w.broker.table_admin.alter(ALICE, "people", after.spec)
        assert again.schema.version == 2  # nothing was changed
        await w.broker.tables.write(ALICE, "people", put("u", 1, zip=string("x")))


@pytest.mark.parametrize(
    ("schema", "changes", "error"),
    [
        (PLAIN, {"primary": (KeyPart("at"), KeyPart("user"))}, ValidationFailed),
        (HASHED, {"shards": 8}, ValidationFailed),
        (HASHED, {"hashed": False, "shards": 1}, ValidationFailed),
        (PLAIN, {"attributes": {**ATTRIBUTES, "at": DataType.STRING}}, ValidationFailed),
        (HASHED, {"indexes": {**HASHED.indexes, "more": HASHED.indexes["by_city"]}}, NotSupported),
    ],
)
async def test_what_cannot_change_stays(
    schema: TableSchema, changes: dict[str, object], error: type[Exception]
) -> None:
    async with world() as w:
        before = await make(w.broker, schema)
        spec = TableSpec(schema=replace(schema, **changes))  # type: ignore[arg-type]
        with pytest.raises(error):
            await w.broker.table_admin.alter(ALICE, "people", spec)
        assert await w.broker.table_admin.describe(ALICE, "people") == before


async def test_entries_of_an_index_go_with_it() -> None:
    async with world() as w:
        table = await make(w.broker, HASHED)
        await w.broker.table_admin.alter(
            ALICE, "people", TableSpec(schema=replace(HASHED, indexes={}))
        )
        rows = w.broker.table_upkeep.access.rows
        with pytest.raises(NotFound):
            await rows.scan(entries_of(table, "by_city"), b"", b"", limit=1)
        await w.broker.tables.write(ALICE, "people", put("u", 1, city=string("x")))


async def test_only_who_may_alters_and_drops() -> None:
    async with world() as w:
        grants = {"bob": (AppRight.APP_SECRET_READ, AppRight.APP_SECRET_WRITE)}
        made = await make(w.broker, app_acl=grants, team_acl={"CIred": (TeamRight.ADMIN,)})
        admin = w.broker.table_admin
        for call in (admin.drop, admin.disable, admin.enable):
            with pytest.raises(PermissionDenied):
                await call(BOB, "alice/people")
        with pytest.raises(PermissionDenied):
            await admin.alter(BOB, "alice/people", made.spec)
        assert (await admin.describe(BOB, "alice/people")).uuid == made.uuid
        with pytest.raises(TableNotExist):
            await admin.drop(Principal(id="eve", number=8), "alice/people")
        with pytest.raises(PermissionDenied):
            await admin.create(GUEST, "t", TableSpec(schema=PLAIN))
        member = Principal(id="eve", number=8, team="CIred")
        assert (await admin.disable(member, "alice/people")).state is TableState.DISABLED
        await admin.drop(ADMIN, "alice/people")


async def test_a_grantee_accepts_a_table_and_uses_its_plain_name() -> None:
    async with world() as w:
        await make(w.broker, app_acl={"bob": (AppRight.APP_SECRET_READ,)})
        admin, carol = w.broker.table_admin, Principal(id="carol", number=9)
        with pytest.raises(TableNotExist, match="alice/people"):
            await admin.describe(BOB, "people")
        await admin.set_accepted(BOB, "alice/people", True)
        assert (await admin.describe(BOB, "people")).owner == "alice"
        with pytest.raises(TableNotExist):
            await admin.set_accepted(carol, "alice/people", True)
        with pytest.raises(BadRequest, match="nothing is granted to root"):
            await admin.set_accepted(ADMIN, "alice/people", True)
        to_read = replace(BOB, limits=KeyLimits(scopes=(Scope.GET,)))
        with pytest.raises(PermissionDenied, match="accept a grant"):
            await admin.set_accepted(to_read, "alice/people", False)
        await admin.set_accepted(BOB, "people", False)
        with pytest.raises(TableNotExist):
            await admin.describe(BOB, "people")


async def test_a_grantee_sees_its_own_grants_and_the_public_ones() -> None:
    read, public = AppRight.APP_SECRET_READ, AppRight.PUBLIC_READ
    async with world() as w:
        made = await make(
            w.broker,
            app_acl={"bob": (read,), "eve": (read,), "any": (read, public)},
            team_acl={"CIred": (TeamRight.READ,)},
        )
        admin = w.broker.table_admin
        (listed,) = await admin.list(BOB)
        for seen in (await admin.describe(BOB, "alice/people"), listed):
            assert seen.app_acl == {"bob": (read,), "any": (public,)}
            assert seen.team_acl == {}
        for caller in (ALICE, ADMIN):
            assert (await admin.describe(caller, "alice/people")).spec == made.spec


async def test_the_storage_quotas_of_an_owners_tables_are_bounded_together() -> None:
    async with world(sds=SdsLimits(user_quota_bytes=100)) as w:
        admin = w.broker.table_admin
        with pytest.raises(ValidationFailed, match="people needs a storage quota"):
            await make(w.broker)
        first = await make(w.broker, name="a", quota_bytes=60)
        with pytest.raises(
            QuotaExceeded, match="tables of alice: limit 100 bytes, measured 60 bytes, requested 50"
        ):
            await make(w.broker, name="b", quota_bytes=50)
        await make(w.broker, name="b", quota_bytes=40)
        await admin.create(BOB, "a", TableSpec(schema=PLAIN, quota_bytes=100))
        for quota_bytes, error in ((61, QuotaExceeded), (None, ValidationFailed)):
            with pytest.raises(error):
                await admin.alter(ALICE, "a", replace(first.spec, quota_bytes=quota_bytes))
        await admin.alter(ALICE, "a", replace(first.spec, quota_bytes=50))
        await admin.drop(ALICE, "b")
        await make(w.broker, name="c", quota_bytes=50)


async def test_a_list_has_own_and_granted_tables() -> None:
    async with world() as w:
        await make(w.broker, name="b", app_acl={"bob": (AppRight.APP_SECRET_READ,)})
        await make(w.broker, name="a")
        await w.broker.table_admin.create(BOB, "c", TableSpec(schema=PLAIN))
        listed = {
            who.id: [(item.owner, item.name) for item in await w.broker.table_admin.list(who)]
            for who in (ALICE, BOB, ADMIN, GUEST)
        }
        assert listed == {
            "alice": [("alice", "a"), ("alice", "b")],
            "bob": [("alice", "b"), ("bob", "c")],
            "root": [],
            "guest": [],
        }


async def test_enabling_and_disabling_twice_succeeds() -> None:
    async with world() as w:
        await make(w.broker)
        admin = w.broker.table_admin
        for _ in range(2):
            assert (await admin.disable(ALICE, "people")).state is TableState.DISABLED
        for _ in range(2):
            assert (await admin.enable(ALICE, "people")).state is TableState.ENABLED


async def test_the_choice_for_a_full_topic_stays_through_alter() -> None:
    async with world(sds=SdsLimits(when_full="gap")) as w:
        made = await make(w.broker)
        assert made.when_full is WhenFull.GAP
        admin = w.broker.table_admin
        chosen = TableSpec(schema=PLAIN, when_full=WhenFull.REFUSE)
        assert (await admin.alter(ALICE, "people", chosen)).when_full is WhenFull.REFUSE
        after = await admin.alter(ALICE, "people", TableSpec(schema=PLAIN, description="d"))
        assert after.when_full is WhenFull.REFUSE


@pytest.mark.parametrize("schema", [PLAIN, HASHED], ids=["plain", "hashed"])
async def test_splits_cover_the_table_once(schema: TableSchema) -> None:
    async with world() as w:
        await make(w.broker, schema)
        await fill(w.broker, 20, 2)
        parts = await w.broker.table_admin.splits(ALICE, "people")
        assert len(parts) == schema.shards
        found = []
        for part in parts:
            query = ScanQuery(table="people", start=part.start, stop=part.stop, limit=1_000)
            page = await w.broker.tables.scan(ALICE, query)
            assert not page.next_key
            found += [(record["user"].value, record["at"].value) for record in page.records]
        assert sorted(found) == sorted((f"u{user}", at) for user in range(20) for at in range(2))


@pytest.mark.parametrize("schema", [PLAIN, HASHED], ids=["plain", "hashed"])
async def test_a_size_is_exact_if_it_is_small(
    schema: TableSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world() as w:
        await make(w.broker, schema)
        await fill(w.broker, 30, 2)
        size = await w.broker.table_admin.size(ALICE, "people")
        assert (size.rows, size.exact) == (60, True)
        assert size.bytes > 60 * 20
        monkeypatch.setattr("opentalos.broker.tables.maintenance.table_stats.SIZE_ROWS_MAX", 20)
        monkeypatch.setattr("opentalos.broker.tables.maintenance.table_stats.SIZE_CHUNK_ROWS", 20)
        estimate = await w.broker.table_admin.size(ALICE, "people")
        assert not estimate.exact
        if schema is PLAIN:
            assert estimate.rows == 20
        else:
            assert 30 <= estimate.rows <= 120


async def test_a_table_survives_a_restart_as_it_was() -> None:
    async with world() as w:
        made = await make(w.broker, HASHED, app_acl={"app": (AppRight.PUBLIC_READ,)})
        broker = await w.restart()
        assert await broker.table_admin.describe(ALICE, "people") == made
        await broker.tables.write(ALICE, "people", put("u", 1, count=integer(1)))

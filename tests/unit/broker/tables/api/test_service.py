"""Records of tables: get, write, batch, and what refuses them."""

from dataclasses import replace

import pytest
from tests.unit.broker.support import world
from tests.unit.broker.tables.support import (
    ALICE,
    APP,
    BOB,
    HASHED,
    PLAIN,
    fill,
    integer,
    key,
    make,
    put,
    remove,
    string,
)

from opentalos.broker.tables.api.values import Got, ReadItem, WriteItem, Written
from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import (
    InvalidName,
    PermissionDenied,
    SizeExceeded,
    TableNotEnabled,
    TableNotExist,
    ThrottleRejected,
    ValidationFailed,
)
from opentalos.model.identity import GUEST
from opentalos.model.mutation import Condition, ConditionOperator, Mutation, Operation
from opentalos.model.settings.tables import SdsLimits
from opentalos.model.table import AppRight, TableSchema, TeamRight


@pytest.mark.parametrize("schema", [PLAIN, HASHED], ids=["plain", "hashed"])
async def test_what_was_put_is_got(schema: TableSchema) -> None:
    async with world() as w:
        await make(w.broker, schema)
        tables = w.broker.tables
        assert await tables.get(ALICE, "people", key("u", 1)) is None
        assert await tables.write(ALICE, "people", put("u", 1, city=string("x"))) == Written(True)
        whole = await tables.get(ALICE, "people", key("u", 1))
        assert whole == {**key("u", 1), "city": string("x")}
        some = await tables.get(ALICE, "alice/people", key("u", 1), ("city", "count"))
        assert some == {"city": string("x")}
        await tables.write(ALICE, "people", remove("u", 1))
        assert await tables.get(ALICE, "people", key("u", 1)) is None


async def test_increments_and_conditions_report_what_they_did() -> None:
    async with world() as w:
        await make(w.broker)
        add = Mutation(Operation.INCREMENT, key("u", 1), {"count": integer(5)})
        for wanted in (5, 10):
            written = await w.broker.tables.write(ALICE, "people", add)
            assert written == Written(True, {"count": integer(wanted)})
        held = Condition(ConditionOperator.EQUAL, "count", integer(3))
        conditional = put("u", 1, city=string("x"))._replace(condition=held)
        assert await w.broker.tables.write(ALICE, "people", conditional) == Written(False)


async def test_wrong_calls_change_nothing() -> None:
    async with world() as w:
        await make(w.broker)
        tables = w.broker.tables
        for wrong in (
            put("u", 1, city=integer(1)),
            put("u", 1, unknown=integer(1)),
            Mutation(Operation.PUT, {"user": string("u")}),
            Mutation(Operation.INCREMENT, key("u", 1), {"city": string("x")}),
        ):
            with pytest.raises(ValidationFailed):
                await tables.write(ALICE, "people", wrong)
        with pytest.raises(SizeExceeded):
            await tables.write(ALICE, "people", put("u" * 2_000, 1))
        with pytest.raises(ValidationFailed):
            await tables.get(ALICE, "people", key("u", 1), ("unknown",))
        with pytest.raises(ValidationFailed):
            await tables.get(ALICE, "people", {"user": string("u")})
        assert await tables.get(ALICE, "people", key("u", 1)) is None


async def test_an_overflow_changes_nothing() -> None:
    async with world() as w:
        await make(w.broker)
        most = integer(2**63 - 1)
        await w.broker.tables.write(ALICE, "people", put("u", 1, count=most))
        add = Mutation(Operation.INCREMENT, key("u", 1), {"count": integer(1)})
        with pytest.raises(ValidationFailed):
            await w.broker.tables.write(ALICE, "people", add)
        found = await w.broker.tables.get(ALICE, "people", key("u", 1), ("count",))
        assert found == {"count": most}


async def test_a_table_that_was_not_granted_reads_as_unknown() -> None:
    async with world() as w:
        await make(w.broker)
        texts = set()
        for caller in (BOB, GUEST):
            for name in ("people", "alice/people"):
                with pytest.raises(TableNotExist) as refused:
                    await w.broker.tables.get(caller, name, key("u", 1))
                texts.add(str(refused.value).replace("alice/", ""))
        with pytest.raises(TableNotExist) as refused:
            await w.broker.tables.get(BOB, "nothing", key("u", 1))
        texts.add(str(refused.value).replace("nothing", "people"))
        assert texts == {"table people does not exist"}
        with pytest.raises(InvalidName):
            await w.broker.tables.get(BOB, "no name", key("u", 1))


async def test_rights_of_applications_teams_and_everybody() -> None:
    async with world() as w:
        grants = {"app": (AppRight.APP_SECRET_READ,), "any": (AppRight.PUBLIC_READ,)}
        await make(w.broker, app_acl=grants, team_acl={"CIteam": (TeamRight.WRITE,)})
        tables = w.broker.tables
        for caller in (APP, BOB, GUEST):
            assert await tables.get(caller, "alice/people", key("u", 1)) is None
            with pytest.raises(PermissionDenied):
                await tables.write(caller, "alice/people", put("u", 1))
        member = replace(BOB, team="CIteam")
        assert (await tables.write(member, "alice/people", put("u", 1))).success


async def test_a_disabled_table_refuses_reads_and_writes() -> None:
    async with world() as w:
        await make(w.broker)
        await w.broker.tables.write(ALICE, "people", put("u", 1))
        await w.broker.table_admin.disable(ALICE, "people")
        with pytest.raises(TableNotEnabled):
            await w.broker.tables.get(ALICE, "people", key("u", 1))
        with pytest.raises(TableNotEnabled):
            await w.broker.tables.write(ALICE, "people", put("u", 1))
        await w.broker.table_admin.enable(ALICE, "people")
        assert await w.broker.tables.get(ALICE, "people", key("u", 1)) == key("u", 1)


async def test_a_batch_has_an_outcome_for_each_item() -> None:
    async with world() as w:
        await make(w.broker)
        await make(w.broker, HASHED, "other")
        await fill(w.broker, 1, 1)
        outcomes = await w.broker.tables.batch(
            ALICE,
            [
                ReadItem("people", key("u0", 0), ("count",)),
                WriteItem("people", put("u1", 1, city=integer(1))),
                WriteItem("people", put("u1", 1, city=string("x"))),
                WriteItem("other", put("u1", 1)),
                ReadItem("nothing", key("u1", 1)),
                ReadItem("people", {"user": string("u")}),
                ReadItem("people", key("u9", 9)),
            ],
        )
        assert outcomes[0] == Got({"count": integer(0)})
        assert isinstance(outcomes[1], ValidationFailed)
        assert outcomes[2:4] == [Written(True), Written(True)]
        assert isinstance(outcomes[4], TableNotExist)
        assert isinstance(outcomes[5], ValidationFailed)
        assert outcomes[6] == Got(None)
        assert await w.broker.tables.get(ALICE, "other", key("u1", 1)) == key("u1", 1)


async def test_a_batch_is_bounded() -> None:
    async with world(sds=SdsLimits(batch_items_max=2)) as w:
        await make(w.broker)
        items = [WriteItem("people", put("u", at)) for at in range(3)]
        with pytest.raises(SizeExceeded):
            await w.broker.tables.batch(ALICE, items)
        assert await w.broker.tables.get(ALICE, "people", key("u", 0)) is None


async def test_what_a_batch_reads_is_bounded() -> None:
    limits = SdsLimits(record_bytes_max=2_000, batch_bytes_max=2_000)
    async with world(sds=limits) as w:
        await make(w.broker)
        for at in range(40):
            await w.broker.tables.write(ALICE, "people", put("u", at, city=string("x" * 100)))
        items = [ReadItem("people", key("u", at)) for at in range(40)]
        counters = w.broker.context.work.counters
        before = counters.pauses
        outcomes = await w.broker.tables.batch(ALICE, items)
        assert counters.pauses == before + 1, "a batch takes turns with all other long work"
        read = sum(isinstance(outcome, Got) for outcome in outcomes)
        assert 2_000 / 200 <= read < 40
        assert all(isinstance(outcome, SizeExceeded) for outcome in outcomes[read:])


async def test_a_partial_batch_does_what_the_rate_allows() -> None:
    async with world() as w:
        await make(w.broker, write_capacity=2)
        items = [WriteItem("people", put("u", at)) for at in range(20)]
        outcomes = await w.broker.tables.batch(ALICE, items, partial=True)
        done = [outcome for outcome in outcomes if outcome == Written(True)]
        refused = [outcome for outcome in outcomes if isinstance(outcome, ThrottleRejected)]
        assert 0 < len(done) < 20
        assert len(done) + len(refused) == 20
        assert "limit 2 units/s, measured" in str(refused[0])


async def test_items_of_a_batch_are_checked_before_it() -> None:
    async with world() as w:
        await make(w.broker)
        good = WriteItem("people", put("u", 1))
        await w.broker.tables.check_items(ALICE, [good, ReadItem("people", key("u", 1))])
        wrong = ReadItem("people", {})
        with pytest.raises(ValidationFailed, match="is missing"):
            await w.broker.tables.check_items(ALICE, [good, wrong])
        with pytest.raises(TableNotExist):
            await w.broker.tables.check_items(ALICE, [WriteItem("nobody", put("u", 1))])


async def test_calls_over_the_rate_are_refused() -> None:
    async with world(sds=SdsLimits(throttle_max_s=0.0)) as w:
        await make(w.broker, read_capacity=1)

        async def read_on() -> None:
            for _ in range(100):
                await w.broker.tables.get(ALICE, "people", key("u", 1))

        with pytest.raises(ThrottleRejected, match=r"reads of table people: limit 1 units/s"):
            await read_on()
        await w.broker.tables.write(ALICE, "people", put("u", 1))  # the other rate is its own


async def test_expired_records_are_not_there() -> None:
    async with world() as w:
        await make(w.broker, replace(PLAIN, ttl_s=10))
        await w.broker.tables.write(ALICE, "people", put("u", 1, count=integer(7)))
        w.clock.now_ms += 9_000
        assert await w.broker.tables.get(ALICE, "people", key("u", 1)) is not None
        w.clock.now_ms += 2_000
        assert await w.broker.tables.get(ALICE, "people", key("u", 1)) is None
        add = Mutation(Operation.INCREMENT, key("u", 1), {"count": integer(1)})
        written = await w.broker.tables.write(ALICE, "people", add)
        assert written.amounts == {"count": Datum(DataType.INT64, 1)}


async def test_tables_are_there_after_a_restart() -> None:
    async with world() as w:
        await make(w.broker, HASHED)
        await fill(w.broker, 2, 2)
        broker = await w.restart()
        found = await broker.tables.get(ALICE, "people", key("u1", 1), ("count",))
        assert found == {"count": integer(1)}

"""Puts without a task: what they take is what the ordinary way takes, the rest is left to it."""

import asyncio

import pytest
from tests.unit.broker.support import world
from tests.unit.broker.tables.support import (
    ALICE,
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

from opentalos.broker.broker import Broker
from opentalos.broker.tables.api.values import Written
from opentalos.broker.tables.rows.row_work import Outcome, RowWork, waiting_of
from opentalos.model.datum import Columns, DataType, Datum
from opentalos.model.errors import OutcomeUnknown, PartitionNotServing, QuotaExceeded, TalosError
from opentalos.model.identity import GUEST, Principal
from opentalos.model.table import TableSchema

RECORD = {**key("u", 1), "city": string("x"), "count": integer(5)}


class Answers(list[Written | TalosError | None]):
    """What a put was answered."""

    def __init__(self) -> None:
        super().__init__()
        self._come = asyncio.Event()

    def take(self, answer: Written | TalosError | None) -> None:
        self.append(answer)
        self._come.set()

    async def come(self) -> None:
        async with asyncio.timeout(10):
            await self._come.wait()


def quick(
    broker: Broker, record: Columns = RECORD, caller: Principal = ALICE, name: str = "people"
) -> tuple[bool, Answers]:
    answers = Answers()
    return broker.put_fast_path.put(caller, name, record, answers.take), answers


@pytest.mark.parametrize("schema", [PLAIN, HASHED], ids=["plain", "hashed"])
async def test_a_plain_put_is_written(schema: TableSchema) -> None:
    async with world() as w:
        await make(w.broker, schema)
        await fill(w.broker, 40, 1)  # opens every shard
        before = w.broker.tables.rates.write_units
        taken, answers = quick(w.broker)
        assert taken
        assert answers == []
        await answers.come()
        assert answers == [Written(True)]
        assert w.broker.tables.rates.write_units == before + 1
        assert await w.broker.tables.get(ALICE, "people", key("u", 1)) == RECORD


@pytest.mark.parametrize(
    ("record", "caller", "name"),
    [
        (RECORD, ALICE, "nobody"),
        (RECORD, BOB, "alice/people"),
        (RECORD, GUEST, "alice/people"),
        ({**key("u", 1), "size": integer(1)}, ALICE, "people"),
        ({**key("u", 1), "city": integer(1)}, ALICE, "people"),
        ({"user": string("u")}, ALICE, "people"),
        ({**RECORD, "user": string("u" * 5_000)}, ALICE, "people"),
        ({**RECORD, "at": Datum(DataType.INT64, None)}, ALICE, "people"),
    ],
    ids=["table", "right", "guest", "column", "type", "no key", "long key", "null key"],
)
async def test_what_is_wrong_is_left_alone(record: Columns, caller: Principal, name: str) -> None:
    async with world() as w:
        await make(w.broker)
        await fill(w.broker, 1, 1)
        before = w.broker.tables.rates.write_units
        assert quick(w.broker, record, caller, name) == (False, [])
        assert w.broker.tables.rates.write_units == before
        assert w.broker.shards.figures().mutations == 1


async def test_a_shard_that_is_not_open_is_left_to_be_opened() -> None:
    async with world() as w:
        await make(w.broker)
        assert quick(w.broker) == (False, [])
        assert w.broker.tables.rates.write_units == 0


async def test_a_disabled_table_is_left_alone() -> None:
    async with world() as w:
        await make(w.broker)
        await fill(w.broker, 1, 1)
        await w.broker.table_admin.disable(ALICE, "people")
        assert quick(w.broker) == (False, [])


async def test_a_put_that_would_have_to_wait_for_its_rate_is_left_alone() -> None:
    async with world() as w:
        await make(w.broker, write_capacity=1)
        await fill(w.broker, 1, 1)
        tries = [quick(w.broker, {**RECORD, "at": integer(number)}) for number in range(200)]
        taken = sum(took for took, _ in tries)
        for took, answers in tries:
            if took:
                await answers.come()
        assert taken < 200
        assert w.broker.tables.rates.write_units == 1 + taken
        assert w.broker.tables.rates.rejected == 0


async def test_row_errors_are_returned_and_a_moved_shard_falls_back() -> None:
    async with world() as w:
        await make(w.broker, quota_bytes=400)
        await fill(w.broker, 1, 1)
        taken, answers = quick(w.broker, {**RECORD, "city": string("x" * 1_000)})
        assert taken
        await answers.come()
        assert isinstance(answers[0], QuotaExceeded)
        taken, answers = quick(w.broker)
        assert taken
        for shard in list(w.broker.shards._shards.values()):
            shard.close(PartitionNotServing("it moved"))
        assert answers == [None]
        assert await w.broker.tables.get(ALICE, "people", key("u", 1)) is None


async def test_a_caller_that_cannot_be_answered_delays_no_other() -> None:
    """Nothing may raise where others wait (docs/internals/hot-path.md#rule-1)."""
    async with world() as w:
        await make(w.broker)
        await fill(w.broker, 1, 1)

        def broken(_: object) -> None:
            raise RuntimeError("its connection is gone in an odd way")

        assert w.broker.put_fast_path.put(ALICE, "people", RECORD, broken)
        taken, answers = quick(w.broker, {**RECORD, "at": integer(2)})
        assert taken
        await answers.come()
        assert answers == [Written(True)]
        assert await w.broker.tables.get(ALICE, "people", key("u", 1)) == RECORD


def test_a_caller_is_answered_once() -> None:
    outcomes: list[Outcome] = []
    work = RowWork(b"k")
    work.waiting.append(waiting_of(put("u", 1), b"k", outcomes.append))
    error = OutcomeUnknown("the server stopped")
    for _ in range(2):
        work.refuse(error)
    work.answer()
    assert outcomes == [error]

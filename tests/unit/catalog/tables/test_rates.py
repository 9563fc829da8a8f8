"""The capacity of tables: of each by itself, and of all tables of an owner together."""

import asyncio

import pytest
from tests.unit.catalog.support import MovableTime
from tests.unit.catalog.tables.test_tables import table

from opentalos.catalog.tables.rates import TableRates
from opentalos.catalog.tables.table import Table
from opentalos.model.errors import ThrottleRejected
from opentalos.model.settings.tables import SdsLimits

LIMITS = SdsLimits(user_read_units_per_s=100, user_write_units_per_s=50)


def sized(owner: str, name: str, reads: int = 80, writes: int = 40) -> Table:
    return table(owner, name, f"{owner}-{name}", read_capacity=reads, write_capacity=writes)


async def test_a_table_has_its_own_capacity() -> None:
    rates, first = TableRates(LIMITS), sized("alice", "a")
    assert rates.admit(first, 80, 0, 0.0) == 0.0
    assert rates.admit(first, 1, 0, 0.0) == 0.0  # the bucket is empty, not overdrawn
    with pytest.raises(ThrottleRejected, match="reads of table a: limit 80 units/s"):
        rates.admit(first, 1, 0, 0.0)
    assert rates.admit(first, 0, 40, 0.0) == 0.0


async def test_tables_of_an_owner_share_its_capacity_and_not_that_of_others() -> None:
    rates, time = TableRates(LIMITS), MovableTime(asyncio.get_running_loop())
    first, second = sized("CLacme", "a"), sized("CLacme", "b")
    assert rates.admit(first, 70, 0, 0.0) == 0.0
    assert rates.admit(second, 70, 0, 0.0) == 0.0
    with pytest.raises(ThrottleRejected, match="reads of all tables of CLacme: limit 100 units/s"):
        rates.admit(second, 1, 0, 0.0)
    assert not rates.admit_now(second, 1, 0)
    assert rates.charge_reads(second, 0) > 0.0
    assert rates.admit(sized("bob", "a"), 70, 0, 0.0) == 0.0
    time.advance(2.0)
    assert rates.admit_now(second, 1, 1)


async def test_a_capacity_of_its_own_choice_gives_an_owner_no_more_than_its_share() -> None:
    rates, huge = TableRates(LIMITS), sized("eve", "huge", 1 << 31, 1 << 31)
    assert rates.admit(huge, 0, 60, 0.0) == 0.0
    with pytest.raises(ThrottleRejected, match="writes of all tables of eve: limit 50 units/s"):
        rates.admit(huge, 0, 1, 0.0)


async def test_a_rejected_call_is_charged_to_nobody() -> None:
    rates, time = TableRates(LIMITS), MovableTime(asyncio.get_running_loop())
    first, second = sized("alice", "a"), sized("alice", "b")
    rates.admit(first, 101, 0, 0.0)
    for _ in range(100):
        with pytest.raises(ThrottleRejected):
            rates.admit(second, 50, 0, 0.0)
    time.advance(1.0)
    assert rates.admit(second, 50, 0, 0.0) == 0.0


async def test_without_a_limit_of_owners_only_tables_are_limited() -> None:
    rates = TableRates(SdsLimits(user_read_units_per_s=0, user_write_units_per_s=0))
    for name in "abc":
        assert rates.admit(sized("alice", name), 80, 40, 0.0) == 0.0

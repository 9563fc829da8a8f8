"""Rates of a tenant that administers its resources."""

import asyncio

import pytest
from tests.unit.catalog.support import ALICE, BOB, CAROL, DAVE, ROOT, MovableTime

from opentalos.catalog.quota import tenant_rates
from opentalos.catalog.quota.tenant_rates import TenantRates
from opentalos.model.errors import ThrottleRejected


def strict(delay_max_s: float = 0.0) -> TenantRates:
    return TenantRates("changes", 2, delay_max_s)


async def test_changes_over_the_rate_are_rejected_with_limit_and_measured_value() -> None:
    rates, time = strict(), MovableTime(asyncio.get_running_loop())
    for _ in range(3):
        await rates.admit(ALICE)
    with pytest.raises(
        ThrottleRejected, match="changes by alice: limit 2 changes/s, measured 1 changes/s; retry"
    ):
        await rates.admit(ALICE)
    await rates.admit(BOB)
    time.advance(1.0)
    await rates.admit(ALICE)


async def test_members_of_an_organisation_share_its_rate() -> None:
    rates = strict()
    for caller in (CAROL, DAVE, CAROL):
        await rates.admit(caller)
    with pytest.raises(ThrottleRejected, match="changes by CLacme"):
        await rates.admit(DAVE)


async def test_a_call_slightly_over_the_rate_is_delayed() -> None:
    loop, rates = asyncio.get_running_loop(), strict(3.0)
    began_s = loop.time()
    for _ in range(5):
        await rates.admit(ALICE)
    assert loop.time() == pytest.approx(began_s + 1.0)


async def test_the_number_of_delayed_calls_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_rates, "HELD_MAX", 1)
    rates = strict(3.0)
    calls = await asyncio.gather(*(rates.admit(ALICE) for _ in range(6)), return_exceptions=True)
    assert [type(outcome) for outcome in calls].count(ThrottleRejected) == 2


async def test_administrators_are_not_limited_and_zero_is_no_limit() -> None:
    limited, free = strict(), TenantRates("changes", 0, 0.0)
    for _ in range(100):
        await limited.admit(ROOT)
        await free.admit(ALICE)


async def test_full_buckets_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_rates, "TENANTS_MAX", 2)
    rates, time = strict(), MovableTime(asyncio.get_running_loop())
    await rates.admit(ALICE)
    time.advance(2.0)
    for _ in range(3):
        await rates.admit(BOB)
    await rates.admit(CAROL)
    with pytest.raises(ThrottleRejected):
        await rates.admit(BOB)


async def test_many_units_pass_at_once_and_are_paid_by_later_calls() -> None:
    rates, time = strict(), MovableTime(asyncio.get_running_loop())
    await rates.admit(ALICE, 10)
    time.advance(3.0)
    with pytest.raises(ThrottleRejected):
        await rates.admit(ALICE, 10)
    time.advance(1.0)  # what was rejected was not charged
    await rates.admit(ALICE)


async def test_what_a_call_turned_out_to_cost_delays_the_next() -> None:
    rates, time = strict(), MovableTime(asyncio.get_running_loop())
    rates.add(ALICE, 10)
    rates.add(ROOT, 1_000)
    with pytest.raises(ThrottleRejected, match="changes by alice"):
        await rates.admit(ALICE)
    await rates.admit(ROOT)
    time.advance(5.0)
    await rates.admit(ALICE)

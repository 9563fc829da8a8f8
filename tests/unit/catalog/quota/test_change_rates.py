"""The rate of administrative changes of a tenant."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.catalog.support import ALICE, BOB, CAROL, DAVE, ROOT, MovableTime

from opentalos.catalog.quota import change_rates
from opentalos.catalog.quota.change_rates import ChangeRates
from opentalos.model.errors import ThrottleRejected
from opentalos.model.limits import QuotaLimits

STRICT = QuotaLimits(tenant_changes_per_s=2, throttle_max_s=0)


async def test_changes_over_the_rate_are_rejected_with_limit_and_measured_value() -> None:
    rates, time = ChangeRates(STRICT), MovableTime(asyncio.get_running_loop())
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
    rates = ChangeRates(STRICT)
    for caller in (CAROL, DAVE, CAROL):
        await rates.admit(caller)
    with pytest.raises(ThrottleRejected, match="changes by CLacme"):
        await rates.admit(DAVE)


async def test_a_call_slightly_over_the_rate_is_delayed() -> None:
    loop, rates = asyncio.get_running_loop(), ChangeRates(replace(STRICT, throttle_max_s=3))
    began_s = loop.time()
    for _ in range(5):
        await rates.admit(ALICE)
    assert loop.time() == pytest.approx(began_s + 1.0)


async def test_the_number_of_delayed_calls_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_rates, "HELD_MAX", 1)
    rates = ChangeRates(replace(STRICT, throttle_max_s=3))
    calls = await asyncio.gather(*(rates.admit(ALICE) for _ in range(6)), return_exceptions=True)
    assert [type(outcome) for outcome in calls].count(ThrottleRejected) == 2


async def test_administrators_are_not_limited_and_zero_is_no_limit() -> None:
    strict, free = ChangeRates(STRICT), ChangeRates(QuotaLimits(tenant_changes_per_s=0))
    for _ in range(100):
        await strict.admit(ROOT)
        await free.admit(ALICE)


async def test_full_buckets_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_rates, "TENANTS_MAX", 2)
    rates, time = ChangeRates(STRICT), MovableTime(asyncio.get_running_loop())
    await rates.admit(ALICE)
    time.advance(2.0)
    for _ in range(3):
        await rates.admit(BOB)
    await rates.admit(CAROL)
    with pytest.raises(ThrottleRejected):
        await rates.admit(BOB)

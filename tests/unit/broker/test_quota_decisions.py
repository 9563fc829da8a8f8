"""Requests for partitions that are decided at once: what is stored, counted, reported and kept."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.unit.broker.several import several
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE, BOB, CAROL, DAVE, ROOT

from opentalos.broker.values import Outcome, PartitionQuota, Projection
from opentalos.catalog.quota.projection import DAY_MS, WEEK
from opentalos.catalog.quota.records import LATEST_MAX, WRITTEN_MS
from opentalos.model.errors import BadRequest, PermissionDenied, QuotaAutoApproveFailed
from opentalos.model.identity import Principal
from opentalos.model.limits import QuotaApprovalLimits, QuotaLimits

MB = 1_000_000
QUOTA = QuotaLimits(organisation_partitions=2)
APPROVAL = QuotaApprovalLimits(capacity_partitions=100, capacity_bytes_per_s=200 * MB)
NOW_MS = 1_700_000_000_000  # of the clock in tests


def asked(total: int, organisation: str = "CLacme") -> PartitionQuota:
    return PartitionQuota(organisation=organisation, total=total, reason="sale")


def projection(tenant: str = "CLacme", level: int = 30 * MB, made_ms: int = NOW_MS) -> Projection:
    return Projection(
        tenant=tenant, made_ms=made_ms, days=60, level=level, trend_per_day=0,
        season=(1_000,) * WEEK, spread=0, peak=level,
    )  # fmt: skip


def member(organisation: str) -> Principal:
    return Principal(id=f"of-{organisation}", number=9, organisation=organisation)


def in_force(w: World, caller: Principal = CAROL) -> int:
    return w.broker.partition_quotas.list_quota(caller).approved


async def test_what_the_traffic_needs_is_granted_at_once_and_lasts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world(quota=QUOTA, quota_approval=APPROVAL) as w:
        await w.broker.partition_quotas.put_projections(ROOT, [projection()])
        await w.broker.partition_quotas.apply_quota(CAROL, asked(5))
        with caplog.at_level(logging.WARNING, "opentalos.audit"):
            found = await w.broker.partition_quotas.auto_apply_quota(CAROL, asked(9))
        assert (found.outcome, found.granted, found.bytes_per_s) == (Outcome.APPROVE, 9, 30 * MB)
        assert "outcome=approve reason='your traffic peaked at 30.0 MB/s" in caplog.text
        await w.topic(CAROL, partitions=9)
        assert w.broker.partition_quotas.list_pending_quota(ROOT).quotas == ()
        await w.restart()
        assert in_force(w, DAVE) == 9
        assert w.broker.partition_quotas.projections(ROOT) == {"CLacme": projection()}
        [granted] = w.broker.partition_quotas.list_quota(DAVE).quotas
        assert granted.note == found.reason


async def test_an_exaggerated_request_is_rejected_and_stored_nowhere() -> None:
    async with world(quota=QUOTA, quota_approval=APPROVAL) as w:
        quotas = w.broker.partition_quotas
        await quotas.put_projections(ROOT, [projection()])
        with pytest.raises(QuotaAutoApproveFailed, match=r"rejected: .* requested 64; up to 13 wo"):
            await quotas.auto_apply_quota(CAROL, asked(64))
        assert (in_force(w), quotas.list_pending_quota(ROOT).quotas) == (2, ())
        assert quotas.decided == {"approve": 0, "human": 0, "reject": 1}


async def test_what_numbers_cannot_decide_waits_with_its_reason() -> None:
    async with world(quota=QUOTA, quota_approval=APPROVAL) as w:
        quotas = w.broker.partition_quotas
        with pytest.raises(QuotaAutoApproveFailed, match="the request is pending: the history"):
            await quotas.auto_apply_quota(CAROL, asked(9))
        [waiting] = quotas.list_pending_quota(ROOT).quotas
        assert (waiting.total, waiting.reason) == (9, "sale")
        assert "more than 8 partitions requires manual approval" in waiting.note
        await quotas.approve_request(ROOT, "CLacme", None)
        assert (in_force(w), quotas.list_pending_quota(ROOT).quotas) == (9, ())
        assert (await quotas.auto_apply_quota(CAROL, asked(9))).granted == 0


async def test_the_floor_is_granted_until_the_capacity_is_used() -> None:
    """100 partitions, 80 of which are given away; 40 are used by a principal without a quota."""
    async with world(quota=QUOTA, quota_approval=APPROVAL) as w:
        quotas = w.broker.partition_quotas
        await w.topic(ALICE, partitions=64)
        await quotas.auto_apply_quota(member("CL1"), asked(8, "CL1"))
        await quotas.auto_apply_quota(member("CL2"), asked(8, "CL2"))
        with pytest.raises(QuotaAutoApproveFailed, match="others hold 80 of the 100 partitions"):
            await quotas.auto_apply_quota(member("CL3"), asked(3, "CL3"))
        await quotas.revoke_quota(ROOT, asked(1, "CL1"))
        w.clock.now_ms += WRITTEN_MS
        await quotas.auto_apply_quota(member("CL3"), asked(8, "CL3"))


async def test_a_grant_keeps_its_traffic_reserved_until_history_shows_it() -> None:
    approval = replace(APPROVAL, capacity_partitions=1_000)  # 160 MB/s are given away
    async with world(quota=QUOTA, quota_approval=approval) as w:
        quotas, quiet = w.broker.partition_quotas, projection("CL1", MB)
        await quotas.put_projections(ROOT, [quiet, projection("CL2", 30 * MB)])
        await quotas.approve_quota(ROOT, asked(45, "CL1"))  # carries 150 MB/s
        with pytest.raises(QuotaAutoApproveFailed, match=r"need 150\.0 MB/s of the 200"):
            await quotas.auto_apply_quota(member("CL2"), asked(9, "CL2"))
        w.clock.now_ms += 30 * DAY_MS
        later = [replace(quiet, made_ms=w.clock.now_ms)]
        later.append(projection("CL2", 30 * MB, w.clock.now_ms))
        await quotas.put_projections(ROOT, later)
        await quotas.auto_apply_quota(member("CL2"), asked(9, "CL2"))


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "c"]])
async def test_servers_that_grant_at_the_same_moment_never_pass_the_capacity(
    names: Sequence[str],
) -> None:
    """80 partitions are given away: ten floors, whichever path grants them, and not one more."""
    approval = replace(APPROVAL, capacity_bytes_per_s=10_000 * MB)
    async with several(*names, quota=QUOTA, quota_approval=approval) as s:
        services = [s[name].broker.partition_quotas for name in names]
        attempts = [
            services[number % len(names)].decide_quota(
                member(f"CL{number}"), asked(8, f"CL{number}")
            )
            for number in range(14)
        ]
        found = await asyncio.gather(*attempts)
        assert sum(item.granted for item in found) == 80
        assert [item.outcome for item in found].count(Outcome.HUMAN) == 4


async def test_a_grant_that_a_server_died_with_counts_for_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counted and not written: the capacity stays reserved while the write may still happen."""
    async with several("a", "b", quota=QUOTA, quota_approval=APPROVAL) as s:
        dying, other = s["a"].broker, s["b"].broker

        async def die(*_: object) -> None:
            raise asyncio.CancelledError

        full = asked(75, "CL1")
        monkeypatch.setattr(dying.catalogs.quotas, "_put", die)
        with pytest.raises(asyncio.CancelledError):
            await dying.partition_quotas.approve_quota(ROOT, full)
        found = await other.partition_quotas.decide_quota(member("CL2"), asked(8, "CL2"))
        assert found.outcome is Outcome.HUMAN
        assert in_force(s["b"], member("CL1")) == 2
        s["b"].clock.now_ms += WRITTEN_MS
        found = await other.partition_quotas.decide_quota(member("CL2"), asked(8, "CL2"))
        assert found.outcome is Outcome.APPROVE


async def test_a_server_that_slept_through_many_grants_knows_them_all() -> None:
    approval = replace(APPROVAL, capacity_partitions=10 * (LATEST_MAX + 10))
    approval = replace(approval, capacity_bytes_per_s=10_000 * MB, fill_max=1.0)
    async with several("a", "b", quota=QUOTA, quota_approval=approval) as s:
        asleep = s["b"].broker.catalogs.quotas
        assert asleep._records.task is not None
        asleep._records.task.cancel()  # no change of others arrives
        for number in range(LATEST_MAX + 9):
            grant = asked(10, f"CL{number}")
            await s["a"].broker.partition_quotas.approve_quota(ROOT, grant)
        found = await s["b"].broker.partition_quotas.decide_quota(CAROL, asked(8))
        assert found.outcome is Outcome.APPROVE
        found = await s["b"].broker.partition_quotas.decide_quota(BOB_OF_B, asked(3, "CLb"))
        assert found.outcome is Outcome.HUMAN
        assert f"others hold {10 * (LATEST_MAX + 9) + 8} of the" in found.reason


BOB_OF_B = replace(BOB, organisation="CLb")


async def test_projections_are_an_administrators_to_write_and_a_tenants_to_read() -> None:
    async with world() as w:
        quotas = w.broker.partition_quotas
        mine, other = projection(), projection("alice")
        await quotas.put_projections(ROOT, [mine, other])
        older = replace(mine, made_ms=mine.made_ms - 1, level=1)
        await quotas.put_projections(ROOT, [older])
        assert quotas.projections(CAROL) == {"CLacme": mine}
        assert quotas.projections(ALICE) == {"alice": other}
        assert quotas.projections(BOB) == {}
        with pytest.raises(PermissionDenied):
            await quotas.put_projections(CAROL, [mine])
        for wrong in (
            replace(mine, level=-1),
            replace(mine, season=(1,) * 6),
            replace(mine, tenant=""),
            replace(mine, tenant="a\nb"),
            replace(mine, trend_per_day=-(1 << 51)),
            replace(mine, days=-1),
        ):
            with pytest.raises(BadRequest):
                await quotas.put_projections(ROOT, [wrong])

"""What becomes of a request for partitions, and why."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentalos.catalog.quota.decision import (
    Decision,
    Outcome,
    Request,
    Taken,
    carried,
    decide,
    needed,
    rate,
)
from opentalos.catalog.quota.projection import DAY_MS, WEEK, Projection
from opentalos.model.limits import QuotaApprovalLimits

MONDAY_MS = 4 * DAY_MS  # 1970-01-05
MB = 1_000_000
LIMITS = QuotaApprovalLimits(capacity_partitions=1_000, capacity_bytes_per_s=2_000 * MB)
FLAT = Projection(
    tenant="CLacme",
    made_ms=MONDAY_MS,
    days=60,
    level=3_000_000,
    trend_per_day=0,
    season=(1_000,) * WEEK,
    spread=0,
    peak=3_100_000,
)
RANK = {Outcome.APPROVE: 0, Outcome.HUMAN: 1, Outcome.REJECT: 2}


def decided(
    total: int,
    projection: Projection | None = FLAT,
    taken: Taken = Taken(),  # noqa: B008 - frozen
    *,
    in_force: int = 1,
    at_ms: int = MONDAY_MS,
    **limits: Any,
) -> Decision:
    request = Request(total=total, in_force=in_force, at_ms=at_ms)
    return decide(request, projection, taken, replace(LIMITS, **limits))


def test_the_reason_of_an_exaggerated_request_has_the_numbers() -> None:
    grown = replace(FLAT, trend_per_day=30_000)
    found = decided(64, grown, floor_partitions=1)
    assert (found.outcome, found.approvable) == (Outcome.REJECT, 3)
    assert found.reason == (
        "your traffic peaked at 3.1 MB/s in the last 28 days and is expected to reach 3.9 MB/s "
        "within 30 days; that needs 2 partitions at 5.0 MB/s each with 50 % reserve; you requested "
        "64; up to 3 would be granted automatically"
    )


def test_one_partition_is_one() -> None:
    little = replace(FLAT, level=MB, peak=MB)
    found = decided(64, little)
    assert "that needs 1 partition at 5.0 MB/s each with 50 % reserve" in found.reason


def test_what_the_traffic_needs_is_granted_and_what_is_little_more_is_for_a_person() -> None:
    heavy = replace(FLAT, level=30 * MB)  # 9 partitions
    found = decided(9, heavy)
    assert (found.outcome, found.bytes_per_s) == (Outcome.APPROVE, 30 * MB)
    found = decided(13, heavy)
    assert (found.outcome, found.bytes_per_s) == (Outcome.APPROVE, carried(13, LIMITS))
    assert decided(14, heavy).outcome is Outcome.HUMAN
    assert decided(27, heavy).outcome is Outcome.HUMAN
    assert decided(28, heavy).outcome is Outcome.REJECT


def test_what_was_sent_before_is_neither_too_much_nor_an_exaggeration() -> None:
    """Two days of it are worth a grant, one day may have been an accident."""
    bursty = replace(FLAT, peak=60 * MB, repeated_peak=30 * MB)
    assert decided(13, bursty).outcome is Outcome.APPROVE
    assert decided(54, bursty).outcome is Outcome.HUMAN
    assert decided(55, bursty).outcome is Outcome.REJECT
    short = replace(bursty, days=5)
    found = decided(14, short)
    assert (found.outcome, found.approvable) == (Outcome.HUMAN, 13)
    assert "more than 13 partitions requires manual approval" in found.reason
    assert decided(13, short).bytes_per_s == carried(13, LIMITS)


def test_a_small_request_needs_no_history() -> None:
    found = decided(8, None)
    assert found.outcome is Outcome.APPROVE
    assert found.bytes_per_s == carried(8, LIMITS) == 26_666_666
    more = decided(9, None)
    assert (more.outcome, more.approvable) == (Outcome.HUMAN, 8)
    assert "the history of your traffic is unknown" in more.reason


@pytest.mark.parametrize(
    ("projection", "said"),
    [
        (replace(FLAT, days=13), "known for 13 days, which peaked at 3.1 MB/s, and 14 days"),
        (replace(FLAT, made_ms=0), "is 4.0 days old; the limit is 3 days"),
    ],
)
def test_little_or_old_history_is_for_a_person(projection: Projection, said: str) -> None:
    found = decided(64, projection)
    assert found.outcome is Outcome.HUMAN
    assert said in found.reason
    assert decided(8, projection).outcome is Outcome.APPROVE


def test_growth_beyond_reason_is_for_a_person() -> None:
    """Also where the extrapolation itself would be enough."""
    wild = replace(FLAT, trend_per_day=1_000_000)
    found = decided(9, wild)
    assert (found.outcome, found.approvable) == (Outcome.HUMAN, 8)
    assert "growth from 3.0 MB/s within 30 days is too strong" in found.reason


def test_what_the_capacity_cannot_bear_is_for_a_person_or_never_fits() -> None:
    full = Taken(partitions=795)
    assert decided(5, taken=full).outcome is Outcome.APPROVE
    found = decided(6, taken=full)
    assert (found.outcome, found.approvable) == (Outcome.HUMAN, 5)
    assert "others hold 795 of the 1000 partitions of this cluster, 80 %" in found.reason
    busy = decided(2, taken=Taken(bytes_per_s=1_598 * MB))
    assert busy.outcome is Outcome.HUMAN
    assert "need 1.6 GB/s of the 2.0 GB/s of this cluster" in busy.reason
    assert decided(1_001, None).outcome is Outcome.REJECT
    never = decided(601, None)
    assert never.outcome is Outcome.REJECT
    assert "more than the whole cluster, whose capacity is 2.0 GB/s" in never.reason


def test_a_cluster_of_unknown_capacity_grants_the_floor_only() -> None:
    heavy = replace(FLAT, level=30 * MB)
    several: list[dict[str, Any]] = [{"capacity_partitions": 0}, {"capacity_bytes_per_s": 0}]
    for unknown in several:
        assert decided(8, heavy, **unknown).outcome is Outcome.APPROVE
        found = decided(9, heavy, **unknown)
        assert (found.outcome, found.approvable) == (Outcome.HUMAN, 8)
        assert "the capacity of this cluster is not configured" in found.reason
        assert decided(64, heavy, **unknown).outcome is Outcome.REJECT


def test_an_existing_permission_is_not_a_new_grant() -> None:
    found = decided(64, in_force=64, taken=Taken(partitions=5_000))
    assert (found.outcome, found.bytes_per_s) == (Outcome.APPROVE, 0)
    assert found.reason == "your quota is already 64 partitions; nothing changes"


def test_the_season_and_the_trend_meet_on_the_right_weekday() -> None:
    busy_sunday = replace(FLAT, level=1_000, season=(*(1_000,) * 6, 2_000), trend_per_day=10)
    assert busy_sunday.expected(MONDAY_MS, 30, 0) == (1_000 + 27 * 10) * 2  # day 27 is a Sunday
    assert busy_sunday.expected(MONDAY_MS, 5, 0) == 1_050  # to Saturday
    assert busy_sunday.expected(MONDAY_MS + DAY_MS, 5, 0) == 1_060 * 2
    falling = replace(busy_sunday, trend_per_day=-10)
    assert falling.expected(MONDAY_MS, 30, 0) == (1_000 - 60) * 2
    assert falling.expected(MONDAY_MS, 30, 0, growing=False) == 2_000
    assert replace(falling, trend_per_day=-1_000).expected(MONDAY_MS + DAY_MS, 3, 0) == 0


def test_rates_are_written_as_people_read_them() -> None:
    shown = [rate(value) for value in (0, 999, 1_000, 3_140_000, 2_000_000_000)]
    assert shown == ["0 B/s", "999 B/s", "1.0 kB/s", "3.1 MB/s", "2.0 GB/s"]


PROJECTIONS = st.none() | st.builds(
    Projection,
    tenant=st.just("CLacme"),
    made_ms=st.integers(0, 8 * DAY_MS),
    days=st.integers(0, 100),
    level=st.integers(0, 500 * MB),
    trend_per_day=st.integers(-20 * MB, 20 * MB),
    season=st.tuples(*[st.integers(0, 3_000)] * WEEK),
    spread=st.integers(0, 50 * MB),
    peak=st.integers(0, 500 * MB),
    repeated_peak=st.integers(0, 500 * MB),
)
TAKEN = st.builds(Taken, partitions=st.integers(0, 1_500), bytes_per_s=st.integers(0, 3_000 * MB))
SMALL = st.builds(
    QuotaApprovalLimits,
    capacity_partitions=st.sampled_from([0, 100, 1_000]),
    capacity_bytes_per_s=st.sampled_from([0, 50 * MB, 2_000 * MB]),
    floor_partitions=st.integers(0, 20),
    slack=st.floats(1, 3),
    exaggeration=st.floats(3, 5),
    reserve=st.floats(0, 2),
)


@settings(max_examples=400)
@given(
    totals=st.lists(st.integers(1, 2_000), min_size=2, max_size=6),
    projection=PROJECTIONS,
    taken=TAKEN,
    limits=SMALL,
    in_force=st.integers(0, 30),
)
def test_asking_for_more_never_helps_and_nothing_passes_the_capacity(
    totals: list[int],
    projection: Projection | None,
    taken: Taken,
    limits: QuotaApprovalLimits,
    in_force: int,
) -> None:
    def outcome(total: int) -> Decision:
        request = Request(total=total, in_force=in_force, at_ms=8 * DAY_MS)
        return decide(request, projection, taken, limits)

    found = {total: outcome(total) for total in sorted({*totals})}
    ranks = [RANK[item.outcome] for item in found.values()]
    assert ranks == sorted(ranks)
    for total, decision in found.items():
        if decision.outcome is Outcome.APPROVE and total > in_force:
            partitions, bytes_per_s = limits.capacity_partitions, limits.capacity_bytes_per_s
            assert not partitions or taken.partitions + total <= partitions * limits.fill_max
            taken_bytes = taken.bytes_per_s + decision.bytes_per_s
            assert not bytes_per_s or taken_bytes <= bytes_per_s * limits.fill_max
        approvable = decision.approvable
        if approvable:
            assert outcome(approvable).outcome is Outcome.APPROVE
        assert outcome(approvable + 1).outcome is not Outcome.APPROVE


@given(PROJECTIONS, st.integers(0, 40), st.integers(1, 40), st.floats(0, 4))
def test_the_bound_of_a_projection_is_one(
    projection: Projection | None, first: int, days: int, spreads: float
) -> None:
    if projection is not None:
        start_ms = projection.made_ms + first * DAY_MS
        bound = projection.at_most(first + days, spreads)
        assert projection.expected(start_ms, days, spreads) <= bound
        flat = projection.expected(start_ms, days, spreads, growing=False)
        assert flat <= bound


@given(st.integers(1, 10**12), st.floats(0, 5))
def test_needed_partitions_carry_the_traffic(bytes_per_s: int, reserve: float) -> None:
    limits = replace(LIMITS, reserve=reserve)
    count = needed(bytes_per_s, limits)
    assert carried(count, limits) >= bytes_per_s - 1
    assert count == 1 or carried(count - 1, limits) <= bytes_per_s

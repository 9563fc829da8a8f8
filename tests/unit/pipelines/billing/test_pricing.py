"""Prices are exact: lines are those of a slow pricer in fractions, and parts add up to a month."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.pipelines.billing.slow_pricer import lines_of
from tests.unit.pipelines.billing.slow_pricer import rounded as slowly_rounded

from opentalos.pipelines.billing.plans.days import Days, days_of
from opentalos.pipelines.billing.plans.price_plan import (
    COUNT_MAX,
    METERED,
    PRICE_MAX,
    PricePlan,
    Rate,
    Resource,
    Rounding,
    Tier,
)
from opentalos.pipelines.billing.plans.price_plan_files import load_price_plans
from opentalos.pipelines.billing.plans.tenant_plans import Assigned
from opentalos.pipelines.billing.pricing import line_table, month_minutes, priced_rows, rounded
from opentalos.pipelines.lake.periods.month import Month

# Independent of the machine's speed: few examples, without a deadline, the same in each run.
QUICK = settings(
    max_examples=30, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
ROOT = Path(__file__).resolve().parents[4]
MARCH = Month(2026, 3)
Case = tuple[PricePlan, dict[Resource, int]]
PLAN = PricePlan(
    name="p",
    valid_from=Month(2026, 1),
    currency="EUR",
    decimals=2,
    rounding=Rounding.HALF_UP,
    minimum=Decimal(0),
    rates={},
    origin="",
)


def with_rate(price: str, unit: int = 1, **changed: Any) -> PricePlan:
    rate = Rate(
        unit=unit, unit_name="", free=0, tiers=(Tier(begin=0, end=None, price=Decimal(price)),)
    )
    return replace(PLAN, rates={Resource.RECORDS: rate}, **changed)


def scale(resource: Resource) -> int:
    """Storage is summed up in byte-minutes."""
    return month_minutes(MARCH) if resource is Resource.STORAGE else 1


def priced(cases: list[Case]) -> dict[str, list[tuple[Any, ...]]]:
    """The lines of each case, which is one tenant."""
    spans = [
        {"tenant": f"t{number}", "day": 0, **{name: Decimal(counts.get(name, 0)) * scale(name)
         for name in METERED}}
        for number, (_, counts) in enumerate(cases)
    ]  # fmt: skip
    assigned = [
        Assigned(f"t{number}", plan, counts.get(Resource.PARTITIONS, 0))
        for number, (plan, counts) in enumerate(cases)
    ]
    table = line_table(priced_rows(assigned, spans, MARCH))
    assert not any(pa.types.is_floating(field.type) for field in table.schema)
    lines: dict[str, list[tuple[Any, ...]]] = {f"t{number}": [] for number in range(len(cases))}
    for row in table.to_pylist():
        shown = row["resource"], row["tier"], int(row["quantity"]), row["amount"]
        lines[row["tenant"]].append(shown)
    return {tenant: sorted(rows) for tenant, rows in lines.items()}


def amounts(cases: list[Case]) -> list[str]:
    """The amount of the only line of each case."""
    found = priced(cases)
    return [str(found[f"t{number}"][0][3].normalize()) for number in range(len(cases))]


def test_amounts_that_floats_get_wrong() -> None:
    single = {Resource.RECORDS: 1}
    cases: list[Case] = [
        (with_rate("1.005"), single),  # round(1.005, 2) is 1.0 in floats
        (with_rate("2.675"), single),
        (with_rate("0.1", decimals=4), {Resource.RECORDS: 3}),  # 0.30000000000000004
        (with_rate("0.01"), {Resource.RECORDS: 900_719_925_474_099_301}),  # beyond 2 ** 53
        (with_rate("0.3", 3), {Resource.RECORDS: 100}),
        (with_rate("1", 1 << 30), {Resource.RECORDS: (1 << 30) // 200}),  # a bit below half a cent
        (with_rate("1", 1 << 30), {Resource.RECORDS: (1 << 30) // 200 + 1}),
    ]
    assert float("1.005") * 100 != 100.5, "these numbers say something only if floats are wrong"
    shown = ["1.01", "2.68", "0.3", "9007199254740993.01", "1E+1", "0", "0.01"]
    assert amounts(cases) == shown


def test_each_rule_rounds_as_it_says() -> None:
    prices = ("0.005", "0.015", "0.0049999999", "0.0050000001", "0.01")
    single = {Resource.RECORDS: 1}
    found = {
        rule: amounts([(with_rate(price, rounding=rule), single) for price in prices])
        for rule in Rounding
    }
    assert found == {
        Rounding.HALF_UP: ["0.01", "0.02", "0", "0.01", "0.01"],
        Rounding.HALF_EVEN: ["0", "0.02", "0", "0.01", "0.01"],
        Rounding.UP: ["0.01", "0.02", "0.01", "0.01", "0.01"],
        Rounding.DOWN: ["0", "0.01", "0", "0", "0.01"],
    }


def test_the_largest_values_that_can_be_are_exact() -> None:
    count = COUNT_MAX
    cases: list[Case] = [
        (with_rate("0.0000000001", decimals=4), {Resource.RECORDS: count}),
        (with_rate(str(PRICE_MAX), 1 << 50), {Resource.RECORDS: count}),
    ]
    for number, (plan, counts) in enumerate(cases):
        assert priced(cases)[f"t{number}"] == lines_of(plan, counts)


def test_an_amount_that_is_too_large_is_an_error() -> None:
    case: Case = with_rate(str(PRICE_MAX)), {Resource.RECORDS: COUNT_MAX}
    with pytest.raises(pa.ArrowInvalid, match="precision"):
        priced([case])


counts = st.one_of(st.integers(0, 100), st.integers(0, 10**12))


@st.composite
def rates(draw: st.DrawFn) -> Rate:
    bounds = sorted(draw(st.sets(st.integers(1, 10**6), max_size=4)))
    edges = [0, *bounds, None]
    tiers = tuple(
        Tier(
            begin=begin, end=end, price=draw(st.decimals(0, 1_000, places=draw(st.integers(0, 10))))
        )
        for begin, end in pairwise(edges)
        if begin is not None
    )
    unit = draw(st.sampled_from([1, 3, 7, 1_000, 10**6, 10**9, 1 << 20, 1 << 30]))
    return Rate(unit=unit, unit_name="", free=draw(st.integers(0, 50)), tiers=tiers)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    decimals = draw(st.integers(0, 4))
    resources = draw(st.sets(st.sampled_from(METERED)))
    plan = replace(
        PLAN,
        decimals=decimals,
        rounding=draw(st.sampled_from(list(Rounding))),
        minimum=draw(st.decimals(0, 100, places=decimals)),
        rates={name: draw(rates()) for name in sorted(resources)},
    )
    used = {name: draw(counts) for name in METERED}
    return plan, used


@QUICK
@given(cases())
def test_lines_are_those_of_the_slow_pricer(case: Case) -> None:
    wanted = sorted((*line[:3], line[3]) for line in lines_of(*case))
    assert priced([case])["t0"] == wanted


def test_reserved_partitions_above_those_included_are_billed() -> None:
    rate = Rate(
        unit=1, unit_name="", free=4, tiers=(Tier(begin=0, end=None, price=Decimal("1.5")),)
    )
    plan = replace(PLAN, rates={Resource.PARTITIONS: rate}, minimum=Decimal(5))
    name, low = Resource.PARTITIONS, Resource.MINIMUM
    cases: list[Case] = [(plan, {name: 3}), (plan, {name: 6}), (plan, {name: 10})]
    assert priced(cases) == {
        "t0": [(low, 0, 1, Decimal(5)), (name, -1, 3, Decimal(0))],
        "t1": [(low, 0, 1, Decimal(2)), (name, -1, 4, Decimal(0)), (name, 0, 2, Decimal(3))],
        "t2": [(name, -1, 4, Decimal(0)), (name, 0, 6, Decimal(9))],
    }


@QUICK
@given(st.integers(0, 10**30), st.integers(1, 10**20), st.sampled_from(list(Rounding)))
def test_integers_round_as_fractions_do(above: int, below: int, rule: Rounding) -> None:
    assert rounded(above, below, rule) == slowly_rounded(Fraction(above, below), 0, rule)


def test_a_month_without_changes_is_priced_as_in_format_1() -> None:
    (stored,) = (ROOT / "tests" / "golden" / "invoices_v1" / "2026-03" / ".versions").iterdir()
    plans = load_price_plans(ROOT / "examples" / "billing" / "plans")
    standard, flat = (plans.at(name, MARCH) for name in ("standard", "flat"))
    topics = pq.read_table(stored / "topics.parquet").to_pylist()
    assigned = [Assigned("CLflat", flat), Assigned("CLshop", standard, 10),
                Assigned("CLsmall", standard)]  # fmt: skip
    golden = pq.read_table(stored / "lines.parquet")
    made = line_table(priced_rows(assigned, [{**row, "day": 0} for row in topics], MARCH))
    assert made.select(golden.column_names).to_pylist() == golden.to_pylist()


def tiered(name: str, **changed: Any) -> PricePlan:
    """Free are 31 million records, and the first tier has as many."""
    tiers = (Tier(begin=0, end=31, price=Decimal(2)), Tier(begin=31, end=None, price=Decimal(1)))
    rates = {
        Resource.RECORDS: Rate(unit=10**6, unit_name="", free=31, tiers=tiers),
        Resource.PARTITIONS: Rate(
            unit=1, unit_name="", free=1, tiers=(Tier(begin=0, end=None, price=Decimal("3.10")),)
        ),
    }
    return replace(PLAN, name=name, rates=rates, **changed)


def span(day: int, records: int) -> dict[str, Any]:
    return {"tenant": "t", "day": day, "records": Decimal(records), "bytes": Decimal(0)}


def test_a_plan_change_has_lines_of_both_plans_for_their_days() -> None:
    new = with_rate("0.5", 10**6, name="new", minimum=Decimal("6.20"))
    assigned = [
        Assigned("t", tiered("old"), 3, days=Days(0, 10, 31)),
        Assigned("t", tiered("old"), 5, days=Days(10, 20, 31)),
        Assigned("t", new, 5, days=Days(20, 31, 31)),
    ]
    spans = [span(0, 30 * 10**6), span(10, 15 * 10**6), span(20, 4 * 10**6)]
    rows = line_table(priced_rows(assigned, spans, MARCH)).to_pylist()
    shown = [
        (row["line"], row["plan"], row["period_begin"].day, row["period_end"].day, row["resource"],
         row["tier"], int(row["quantity"]), row["amount"])
        for row in rows
    ]  # fmt: skip
    assert shown == [
        # 20 of 31 days have 20 millions free, and 20 in the first tier: 45 = 20 + 20 + 5
        (1, "old", 1, 21, "records", -1, 20 * 10**6, Decimal(0)),
        (2, "old", 1, 21, "records", 0, 20 * 10**6, Decimal(40)),
        (3, "old", 1, 21, "records", 1, 5 * 10**6, Decimal(5)),
        (4, "old", 1, 11, "reserved_partitions", -1, 1, Decimal(0)),
        (5, "old", 1, 11, "reserved_partitions", 0, 2, Decimal(2)),  # 2 x 3.10 x 10 / 31
        (6, "old", 11, 21, "reserved_partitions", -1, 1, Decimal(0)),
        (7, "old", 11, 21, "reserved_partitions", 0, 4, Decimal(4)),
        (8, "new", 21, 1, "records", 0, 4 * 10**6, Decimal(2)),
        (9, "new", 21, 1, "minimum", 0, 1, Decimal("0.20")),  # 6.20 x 11 / 31 = 2.20
    ]
    assert rows[-1]["period_end"] == date(2026, 4, 1)


cuts = st.sets(st.integers(1, 30), max_size=12)


@QUICK
@given(
    cuts, st.integers(0, 10**6), st.decimals(0, 1_000, places=10), st.decimals(0, 999, places=2),
    st.sampled_from(list(Rounding)),
)  # fmt: skip
def test_parts_of_any_split_add_up_to_the_month(
    starts: set[int], count: int, price: Decimal, minimum: Decimal, rule: Rounding
) -> None:
    rate = Rate(unit=1, unit_name="", free=0, tiers=(Tier(begin=0, end=None, price=price),))
    fee = replace(PLAN, rates={Resource.PARTITIONS: rate}, rounding=rule)
    least = replace(PLAN, minimum=minimum, rounding=rule)

    def total(plan: PricePlan, split: list[Days]) -> Decimal:
        # Plans of different names, so that no two parts are joined.
        parts = [
            Assigned("t", replace(plan, name=str(number)), count, days=days)
            for number, days in enumerate(split)
        ]
        return sum((row["amount"] for row in priced_rows(parts, [], MARCH)), Decimal(0))

    whole, split = days_of(MARCH, set()), days_of(MARCH, starts)
    assert total(fee, split) == total(fee, whole)
    assert total(least, split) == total(least, whole) == minimum


@QUICK
@given(cuts, st.lists(st.integers(0, 10**12), min_size=31, max_size=31), rates())
def test_every_record_is_in_one_line_and_every_free_unit_is_given_once(
    starts: set[int], records: list[int], rate: Rate
) -> None:
    plan = replace(PLAN, rates={Resource.RECORDS: rate})
    parts = [
        Assigned("t", replace(plan, name=str(number)), days=days)
        for number, days in enumerate(days_of(MARCH, starts))
    ]
    spans = [span(day, count) for day, count in enumerate(records)]
    rows = list(priced_rows(parts, spans, MARCH))
    assert sum(row["quantity"] for row in rows) == sum(records)
    free = [row["quantity"] for row in rows if row["tier"] == -1]
    assert sum(free) <= rate.free * rate.unit
    assert sum(part.days.share(rate.free * rate.unit) for part in parts) == rate.free * rate.unit

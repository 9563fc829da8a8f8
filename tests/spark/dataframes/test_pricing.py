"""Prices are exact: Spark's lines are those of a slow pricer in fractions, to the last cent."""

from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.spark.dataframes.slow_pricer import lines_of

from opentalos.pipelines.billing.plans.price_plan import (
    COUNT_MAX,
    PRICE_MAX,
    PricePlan,
    Rate,
    Resource,
    Rounding,
    Tier,
)
from opentalos.pipelines.billing.plans.tenant_plans import Assigned
from opentalos.pipelines.billing.pricing import (
    broken_chains,
    gaps,
    invoice_lines,
    line_items,
    partition_totals,
    price_table,
    reserved_table,
    topic_totals,
)
from opentalos.pipelines.lake.month import Month

Case = tuple[PricePlan, dict[Resource, int]]
USAGE = (
    "tenant STRING, topic STRING, name STRING, partition INT, records BIGINT, bytes BIGINT, "
    "first_offset BIGINT, next_offset BIGINT"
)
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


def priced(spark: SparkSession, cases: list[Case]) -> dict[str, list[tuple[Any, ...]]]:
    """The lines of each case, which is one tenant."""
    totals = [
        {"tenant": f"t{number}", **{name: Decimal(counts.get(name, 0)) for name in
         (Resource.RECORDS, Resource.BYTES)}}
        for number, (_, counts) in enumerate(cases)
    ]  # fmt: skip
    schema = pa.schema(
        [("tenant", pa.string())]
        + [(name, pa.decimal128(20, 0)) for name in (Resource.RECORDS, Resource.BYTES)]
    )
    topics = spark.createDataFrame(pa.Table.from_pylist(totals, schema))
    assigned = [
        Assigned(f"t{number}", plan, counts.get(Resource.PARTITIONS, 0))
        for number, (plan, counts) in enumerate(cases)
    ]
    found = line_items(topics, reserved_table(spark, assigned), price_table(spark, assigned))
    table = invoice_lines(found.toArrow(), assigned)
    assert not any(pa.types.is_floating(field.type) for field in table.schema)
    lines: dict[str, list[tuple[Any, ...]]] = {f"t{number}": [] for number in range(len(cases))}
    for row in table.to_pylist():
        shown = row["resource"], row["tier"], int(row["quantity"]), row["amount"]
        lines[row["tenant"]].append(shown)
    return {tenant: sorted(rows) for tenant, rows in lines.items()}


def amounts(spark: SparkSession, cases: list[Case]) -> list[str]:
    """The amount of the only line of each case."""
    found = priced(spark, cases)
    return [str(found[f"t{number}"][0][3].normalize()) for number in range(len(cases))]


def test_amounts_that_floats_get_wrong(spark: SparkSession) -> None:
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
    assert amounts(spark, cases) == shown


def test_each_rule_rounds_as_it_says(spark: SparkSession) -> None:
    prices = ("0.005", "0.015", "0.0049999999", "0.0050000001", "0.01")
    single = {Resource.RECORDS: 1}
    found = {
        rule: amounts(spark, [(with_rate(price, rounding=rule), single) for price in prices])
        for rule in Rounding
    }
    assert found == {
        Rounding.HALF_UP: ["0.01", "0.02", "0", "0.01", "0.01"],
        Rounding.HALF_EVEN: ["0", "0.02", "0", "0.01", "0.01"],
        Rounding.UP: ["0.01", "0.02", "0.01", "0.01", "0.01"],
        Rounding.DOWN: ["0", "0.01", "0", "0", "0.01"],
    }


def test_the_largest_values_that_can_be_are_exact(spark: SparkSession) -> None:
    count = COUNT_MAX
    cases: list[Case] = [
        (with_rate("0.0000000001", decimals=4), {Resource.RECORDS: count}),
        (with_rate(str(PRICE_MAX), 1 << 50), {Resource.RECORDS: count}),
    ]
    for number, (plan, counts) in enumerate(cases):
        assert priced(spark, cases)[f"t{number}"] == lines_of(plan, counts)


def test_an_amount_that_is_too_large_is_an_error(spark: SparkSession) -> None:
    case: Case = with_rate(str(PRICE_MAX)), {Resource.RECORDS: COUNT_MAX}
    with pytest.raises(Exception, match="NUMERIC_VALUE_OUT_OF_RANGE"):
        priced(spark, [case])


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
    resources = draw(st.sets(st.sampled_from([Resource.RECORDS, Resource.BYTES])))
    plan = replace(
        PLAN,
        decimals=decimals,
        rounding=draw(st.sampled_from(list(Rounding))),
        minimum=draw(st.decimals(0, 100, places=decimals)),
        rates={name: draw(rates()) for name in sorted(resources)},
    )
    used = {Resource.RECORDS: draw(counts), Resource.BYTES: draw(counts)}
    return plan, used


@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # each try is a job of Spark: making a failure smaller takes too long
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(cases(), min_size=120, max_size=120))
def test_lines_are_those_of_the_slow_pricer(spark: SparkSession, drawn: list[Case]) -> None:
    found = priced(spark, drawn)
    for number, (plan, used) in enumerate(drawn):
        wanted = sorted((*line[:3], line[3]) for line in lines_of(plan, used))
        assert found[f"t{number}"] == wanted, (plan, used)


def test_reserved_partitions_above_those_included_are_billed(spark: SparkSession) -> None:
    rate = Rate(
        unit=1, unit_name="", free=4, tiers=(Tier(begin=0, end=None, price=Decimal("1.5")),)
    )
    plan = replace(PLAN, rates={Resource.PARTITIONS: rate}, minimum=Decimal(5))
    name, low = Resource.PARTITIONS, Resource.MINIMUM
    cases: list[Case] = [(plan, {name: 3}), (plan, {name: 6}), (plan, {name: 10})]
    assert priced(spark, cases) == {
        "t0": [(low, 0, 1, Decimal(5)), (name, -1, 3, Decimal(0))],
        "t1": [(low, 0, 1, Decimal(2)), (name, -1, 4, Decimal(0)), (name, 0, 2, Decimal(3))],
        "t2": [(name, -1, 4, Decimal(0)), (name, 0, 6, Decimal(9))],
    }


def test_usage_is_summed_by_topic_and_gaps_are_found(spark: SparkSession) -> None:
    rows = [
        ("a", "u1", "n1", 0, 10, 1 << 48, 0, 10),
        ("a", "u1", "n1", 0, 5, 1 << 48, 10, 15),
        ("a", "u1", "n1", 1, 5, 7, 0, 5),
        ("a", "u1", "n1", 1, 5, 7, 8, 13),  # three records are missing before it
        ("b", "u2", "n1", 0, 1, 1, 0, 1),
        ("c", "u3", "n3", 0, 10, 1, 0, 10),
        ("c", "u3", "n3", 0, 5, 1, 8, 13),  # two records are in both
        ("c", "u3", "n3", 0, 5, 1, 15, 20),  # and two are missing
    ]
    minutes = [(*row, minute) for minute, row in enumerate(rows)]
    usage = spark.createDataFrame(minutes, USAGE + ", minute INT")
    partitions = partition_totals(usage).persist()
    found = sorted(topic_totals(partitions).collect())
    assert [tuple(row) for row in found] == [
        ("a", "u1", "n1", 2, Decimal(25), Decimal((1 << 49) + 14)),
        ("b", "u2", "n1", 1, Decimal(1), Decimal(1)),
        ("c", "u3", "n3", 1, Decimal(20), Decimal(3)),
    ]
    assert sorted(map(tuple, broken_chains(partitions).collect())) == [("u1", 1), ("u3", 0)]
    assert sorted(map(tuple, gaps(usage).collect())) == [
        ("u1", 1, "n1", Decimal(3), Decimal(0)),
        ("u3", 0, "n3", Decimal(2), Decimal(2)),
    ]
    partitions.unpersist()

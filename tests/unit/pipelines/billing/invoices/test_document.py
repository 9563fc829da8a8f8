"""An invoice as JSON has the exact amounts of the page, and days that add up to the charges."""

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from opentalos.pipelines.billing.invoices.daily_chart import DayUse
from opentalos.pipelines.billing.invoices.document import document, summary
from opentalos.pipelines.billing.invoices.invoice import Invoice, InvoiceLine
from opentalos.pipelines.billing.plans.price_plan import Resource
from opentalos.pipelines.billing.plans.price_plan_files import load_price_plans
from opentalos.pipelines.lake.periods.month import Month

ROOT = Path(__file__).resolve().parents[5]
PLAN = load_price_plans(ROOT / "examples" / "billing" / "plans").at("standard", Month(2026, 3))
METERED = (Resource.RECORDS, Resource.BYTES, Resource.PARTITIONS, Resource.MINIMUM)


def line(resource: Resource, amount: str, begin: int = 1, end: int = 32) -> InvoiceLine:
    days = [date(2026, 3, day) if day <= 31 else date(2026, 4, 1) for day in (begin, end)]
    return InvoiceLine(
        resource=resource, tier=0, from_count=0, up_to_count=None, quantity=1, unit=1,
        unit_name="", price=Decimal("0.0100000000"), amount=Decimal(amount), begin=days[0],
        end=days[1],
    )  # fmt: skip


def invoice(*lines: InvoiceLine) -> Invoice:
    assert PLAN is not None
    return Invoice(
        tenant="CLshop", month=Month(2026, 3), revision=1, plan=PLAN, lines=lines, topics=()
    )


@given(
    amounts=st.lists(st.integers(0, 10**12), min_size=4, max_size=4),
    begin=st.integers(1, 31),
    length=st.integers(1, 31),
    records=st.lists(st.integers(0, 10**9), min_size=31, max_size=31),
)
def test_the_costs_of_all_days_add_up_exactly(
    amounts: list[int], begin: int, length: int, records: list[int]
) -> None:
    lines = [
        line(resource, f"{amount}E-4", begin, min(32, begin + length))
        for resource, amount in zip(METERED, amounts, strict=True)
    ]
    days = [DayUse(records=count, bytes=count * 3) for count in records]
    found = json.loads(document(invoice(*lines), days))
    costs = [Decimal(day["cost"]) for day in found["days"]]
    assert sum(costs) == Decimal(found["charges"]) == sum(entry.amount for entry in lines)
    assert min(costs) >= 0
    outside = [*costs[: begin - 1], *costs[min(31, begin + length - 1) :]]
    assert not any(outside)


def test_metered_amounts_follow_the_usage_of_the_day() -> None:
    days = [DayUse(records=3 if day < 2 else 0, bytes=0) for day in range(31)]
    days[0] = replace(days[0], records=1)
    found = json.loads(document(invoice(line(Resource.RECORDS, "1.0000")), days))
    costs = [Decimal(day["cost"]) for day in found["days"]]
    assert costs[:3] == [Decimal("0.25"), Decimal("0.75"), 0]


def test_without_usage_by_day_everything_is_spread_evenly() -> None:
    found = json.loads(document(invoice(line(Resource.RECORDS, "31.0000")), ()))
    assert {Decimal(day["cost"]) for day in found["days"]} == {Decimal(1)}


def test_no_amount_becomes_a_float() -> None:
    credit = replace(line(Resource.CREDIT, "-0.1000"), id="c-1", price=None)
    found = json.loads(document(invoice(line(Resource.BYTES, "0.3000"), credit), ()))
    assert (found["charges"], found["total"]) == ("0.3000", "0.2000")
    assert found["lines"][0]["price"] == "0.0100000000"
    assert found["lines"][1]["price"] is None


def test_a_tenant_with_a_problem_has_no_amount() -> None:
    row = {"tenant": "CLx", "plan": None, "currency": None, "records": Decimal(7),
           "bytes": Decimal(9), "amount": None, "charges": None, "problem": "no plan"}  # fmt: skip
    (found,) = json.loads(summary([row], 2))["tenants"]
    assert (found["amount"], found["records"], found["problem"]) == (None, 7, "no plan")

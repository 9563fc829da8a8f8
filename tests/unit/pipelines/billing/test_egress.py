"""Egress on the bill: a line of its own where a plan has a price for it, and nothing elsewhere."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

from opentalos.pipelines.billing.egress import billable as billable_rows
from opentalos.pipelines.billing.egress import reads_table, with_resource
from opentalos.pipelines.billing.invoices.invoice import Others, invoices
from opentalos.pipelines.billing.invoices.page import render
from opentalos.pipelines.billing.plans.days import Days
from opentalos.pipelines.billing.plans.price_plan import (
    PricePlan,
    PricePlans,
    Rate,
    Resource,
    Rounding,
    Tier,
)
from opentalos.pipelines.billing.plans.tenant_plans import Assigned
from opentalos.pipelines.billing.pricing import line_table, priced_rows
from opentalos.pipelines.lake.periods.month import Month

MARCH = Month(2026, 3)
GIB = 1 << 30


def rate(price: str, free: int = 0) -> Rate:
    tier = Tier(begin=0, end=None, price=Decimal(price))
    return Rate(unit=GIB, unit_name="GiB", free=free, tiers=(tier,))


PLAIN = PricePlan(
    name="plain",
    valid_from=Month(2026, 1),
    currency="EUR",
    decimals=2,
    rounding=Rounding.HALF_UP,
    minimum=Decimal(0),
    rates={Resource.BYTES: rate("1")},
    origin="",
)
PRICED = replace(PLAIN, name="priced", rates={**PLAIN.rates, Resource.EGRESS: rate("0.09", 1)})


def read(tenant: str = "CLshop", day: int = 0, reader: str = "CLr", gib: int = 3) -> dict[str, Any]:
    """A row of ``month_egress``."""
    return {
        "tenant": tenant,
        "topic": f"uuid-{tenant}",
        "reader": reader,
        "day": day,
        "name": "orders",
        "messages": Decimal(gib),
        "bytes": Decimal(gib * GIB),
    }


def stored(tenant: str = "CLshop", day: int = 0) -> dict[str, Any]:
    """A row of ``span_totals``."""
    return {"tenant": tenant, "day": day, "records": Decimal(5), "bytes": Decimal(GIB)}


def lines(assigned: list[Assigned], spans: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = line_table(priced_rows(assigned, spans, MARCH)).to_pylist()
    return found


def billable(rows: list[dict[str, Any]], assigned: list[Assigned]) -> list[Mapping[str, Any]]:
    return billable_rows(rows, assigned, Resource.EGRESS)


def with_egress(
    spans: Iterable[Mapping[str, Any]], rows: Iterable[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    return with_resource(spans, rows, Resource.EGRESS)


def test_only_a_plan_of_the_month_makes_egress_priced() -> None:
    later = replace(PRICED, valid_from=Month(2026, 4))
    assert PricePlans((PLAIN, PRICED)).price(Resource.EGRESS, MARCH)
    assert not PricePlans((PLAIN, later)).price(Resource.EGRESS, MARCH)
    assert PricePlans((PLAIN, later)).price(Resource.EGRESS, Month(2026, 4))


def test_what_was_read_is_a_line_after_the_stored_bytes() -> None:
    spans = with_egress([stored()], [read(reader="CLa"), read(reader="CLb", gib=2)])
    found = lines([Assigned("CLshop", PRICED)], spans)
    assert [(row["resource"], int(row["quantity"]) // GIB, row["amount"]) for row in found] == [
        ("bytes", 1, Decimal("1.00")),
        ("egress", 1, Decimal("0.00")),  # the free quota
        ("egress", 4, Decimal("0.36")),
    ]


def test_without_a_price_the_lines_are_as_without_egress() -> None:
    assigned = [Assigned("CLshop", PLAIN)]
    egress = billable([read()], assigned)
    assert egress == []
    assert with_egress([stored()], egress) == [stored()]
    assert lines(assigned, with_egress([stored()], [read()])) == lines(assigned, [stored()])


def test_a_tenant_that_was_only_read_has_a_line_or_is_a_problem() -> None:
    no_plan = Assigned("CLnone", None, problem="no plan")
    assigned = [no_plan, Assigned("CLplain", PLAIN), Assigned("CLshop", PRICED)]
    rows = [read("CLnone"), read("CLplain"), read("CLshop")]
    kept = billable(rows, assigned)
    assert [row["tenant"] for row in kept] == ["CLnone", "CLshop"]
    (_, line) = lines(assigned, with_egress([], kept))
    assert (line["tenant"], line["amount"]) == ("CLshop", Decimal("0.18"))


def test_a_plan_change_splits_egress_by_the_days_it_was_read() -> None:
    before, after = Days(0, 15, 31), Days(15, 31, 31)
    assigned = [
        Assigned("CLshop", PLAIN, days=before),
        Assigned("CLshop", PRICED, days=after),
    ]
    kept = billable([read(day=0), read(day=15)], assigned)
    assert [row["day"] for row in kept] == [15]
    found = lines(assigned, with_egress([stored(day=0)], kept))
    egress = [row for row in found if row["resource"] == "egress"]
    assert {(row["period_begin"], row["plan"]) for row in egress} == {(date(2026, 3, 16), "priced")}
    assert sum(int(row["quantity"]) for row in egress) == 3 * GIB


def test_the_page_names_the_readers_and_says_that_it_was_measured() -> None:
    assigned = [Assigned("CLshop", PRICED)]
    egress = [read(day=0), read(day=9, gib=1), read(reader="<i>")]
    rows = lines(assigned, with_egress([stored()], egress))
    reads = reads_table(egress).to_pylist()
    assert [(row["reader"], int(row["messages"])) for row in reads] == [("<i>", 3), ("CLr", 4)]
    (invoice,) = invoices(assigned, rows, [], MARCH, 1, Others(reads=reads))
    page = render(invoice)
    for text in ("Bytes read, as measured", "Reads by topic", "&lt;i&gt;", "6.0 GiB",
                 "they cannot be counted again", "per GiB"):  # fmt: skip
        assert text in page
    (plain,) = invoices([Assigned("CLshop", PLAIN)], rows[:1], [], MARCH, 1)
    assert "easured" not in render(plain)
    assert "Reads by topic" not in render(plain)

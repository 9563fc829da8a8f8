"""Storage on the bill: a byte kept for the month is 1, whatever its length; nothing elsewhere."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.unit.pipelines.billing.test_egress import GIB, MARCH, PLAIN, rate, stored

from opentalos.pipelines.billing.closing import Watermark, unreported
from opentalos.pipelines.billing.egress import billable, with_resource
from opentalos.pipelines.billing.invoices.invoice import Others, invoices
from opentalos.pipelines.billing.invoices.page import render
from opentalos.pipelines.billing.plans.days import Days
from opentalos.pipelines.billing.plans.price_plan import Resource
from opentalos.pipelines.billing.plans.price_plan_files import check_price_plans
from opentalos.pipelines.billing.plans.tenant_plans import Assigned
from opentalos.pipelines.billing.pricing import line_table, month_minutes, priced_rows
from opentalos.pipelines.billing.storage import kept_table
from opentalos.pipelines.lake.periods.month import Month

PRICED = replace(PLAIN, name="priced", rates={**PLAIN.rates, Resource.STORAGE: rate("0.03", 1)})
DAY_MINUTES = 1_440


def kept(
    byte_minutes: int, tenant: str = "CLshop", day: int = 0, topic: str = "uuid"
) -> dict[str, Any]:
    """A row of ``month_storage``."""
    return {
        "tenant": tenant,
        "topic": topic,
        "name": "orders",
        "day": day,
        "byte_minutes": byte_minutes,
    }


def lines(
    assigned: list[Assigned], rows: Iterable[Mapping[str, Any]], month: Month = MARCH
) -> list[dict[str, Any]]:
    spans = with_resource([stored()], rows, Resource.STORAGE, "byte_minutes")
    found = line_table(priced_rows(assigned, spans, month)).to_pylist()
    return [row for row in found if row["resource"] == "storage"]


def test_a_gib_kept_for_the_month_is_one_in_every_month() -> None:
    for month in (MARCH, Month(2026, 2)):
        minutes = month_minutes(month)
        assert minutes == (month.end - month.begin).days * DAY_MINUTES
        found = lines([Assigned("CLshop", PRICED)], [kept(4 * GIB * minutes)], month)
        assert [(int(row["quantity"]), row["amount"]) for row in found] == [
            (GIB, Decimal("0.00")),  # the free quota
            (3 * GIB, Decimal("0.09")),
        ]


def test_it_is_rounded_down_once_for_all_topics_of_a_line() -> None:
    minutes = month_minutes(MARCH)
    half = kept(minutes // 2), kept(minutes - minutes // 2, topic="other")
    (line,) = lines([Assigned("CLshop", PRICED)], half)
    assert line["quantity"] == 1
    assert lines([Assigned("CLshop", PRICED)], [kept(minutes - 1)]) == []


def test_parts_of_a_month_have_their_days_of_storage_free_quota_and_tiers() -> None:
    before, after = Days(0, 10, 31), Days(10, 31, 31)
    other = replace(PRICED, name="other")
    assigned = [
        Assigned("CLshop", PRICED, days=before),
        Assigned("CLshop", other, days=after),
    ]
    parts = [kept(GIB * 10 * DAY_MINUTES, day=0), kept(GIB * 21 * DAY_MINUTES, day=10)]
    found = lines(assigned, parts)
    assert [(row["period_begin"], int(row["quantity"]), row["amount"]) for row in found] == [
        (date(2026, 3, 1), GIB * 10 // 31, Decimal("0.00")),
        (date(2026, 3, 11), GIB * 21 // 31, Decimal("0.00")),
    ]


def test_without_a_price_nothing_of_it_is_billed() -> None:
    row = kept(1 << 60)
    assert billable([row], [Assigned("CLshop", PLAIN)], Resource.STORAGE) == []
    assert billable([row], [Assigned("CLshop", PRICED)], Resource.STORAGE) == [row]
    assert lines([Assigned("CLshop", PLAIN)], [row]) == []


def test_the_page_says_what_was_kept_and_what_counts() -> None:
    minutes = month_minutes(MARCH)
    rows = [kept(3 * GIB * minutes), kept(GIB * minutes, topic="<i>")]
    assigned = [Assigned("CLshop", PRICED)]
    table = kept_table(rows).to_pylist()
    (invoice,) = invoices(assigned, lines(assigned, rows), [], MARCH, 1, Others(kept=table))
    page = render(invoice)
    for text in ("Bytes kept, on average over the month", "Storage by topic", "&lt;i&gt;",
                 "per GiB and month", "3.0 GiB", "one copy"):  # fmt: skip
        assert text in page
    (plain,) = invoices([Assigned("CLshop", PLAIN)], [], [], MARCH, 1)
    assert "kept" not in render(plain)


def test_a_plan_has_a_section_of_it(tmp_path: Path) -> None:
    text = (
        'plan = "p"\nvalid_from = "2026-01"\ncurrency = "EUR"\n[storage]\nunit = "GB"\nfree = 5\n'
    )
    (tmp_path / "p.toml").write_text(text + "[[storage.tier]]\nfrom = 0\nprice = 0.02\n")
    plans, faults = check_price_plans(tmp_path)
    assert faults == []
    assert plans.price(Resource.STORAGE, MARCH)
    (plan,) = plans.versions
    assert (plan.rates[Resource.STORAGE].unit, plan.rates[Resource.STORAGE].free) == (10**9, 5)


def test_a_month_waits_for_a_report_of_each_partition_that_keeps_messages() -> None:
    marks = {
        ("a", 0): Watermark("a", 9, 0, 9),
        ("b", 0): Watermark("b", 9, 0, 9, start_offset=9),
        ("c", 0): Watermark("c", 9, 0, 9, start_offset=3),
    }
    found = list(unreported(marks, {("a", 0)}))
    assert [(place, name) for place, name, _ in found] == [(("c", 0), "c")]
    assert "storage_interval_s" in found[0][2]

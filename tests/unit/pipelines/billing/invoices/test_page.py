"""An invoice page is readable for its payer, and escapes all external text."""

import re
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from opentalos.pipelines.billing.invoices.daily_chart import DayUse, daily_chart
from opentalos.pipelines.billing.invoices.invoice import Invoice, InvoiceLine, TopicUse, invoices
from opentalos.pipelines.billing.invoices.page import render
from opentalos.pipelines.billing.plans.days import Days
from opentalos.pipelines.billing.plans.price_plan import Resource
from opentalos.pipelines.billing.plans.price_plan_files import load_price_plans
from opentalos.pipelines.billing.plans.tenant_plans import Assigned
from opentalos.pipelines.lake.periods.month import Month

ROOT = Path(__file__).resolve().parents[5]
PLAN = load_price_plans(ROOT / "examples" / "billing" / "plans").at("standard", Month(2026, 3))


def line(resource: Resource, tier: int, count: int, amount: str, **more: object) -> InvoiceLine:
    usual = InvoiceLine(
        resource=resource,
        tier=tier,
        from_count=0,
        up_to_count=None,
        quantity=count,
        unit=1,
        unit_name="",
        price=Decimal("1.5000000000"),
        amount=Decimal(amount),
    )
    return replace(usual, **more)  # type: ignore[arg-type]


@pytest.fixture
def invoice() -> Invoice:
    assert PLAN is not None
    return Invoice(
        tenant="CLshop",
        month=Month(2026, 3),
        revision=1,
        plan=PLAN,
        lines=(
            line(Resource.RECORDS, -1, 10_000_000, "0", up_to_count=10_000_000, unit=10**6),
            line(Resource.RECORDS, 0, 1_234, "1234.5000", from_count=10_000_000, unit=10**6,
                 up_to_count=10**9, price=Decimal("0.2000000000")),
            line(Resource.BYTES, 0, 5 << 30, "0.0900", unit=10**9, unit_name="GB",
                 price=Decimal("0.0850000000")),
            line(Resource.PARTITIONS, 0, 60, "90.0000", from_count=4),
            line(Resource.MINIMUM, 0, 1, "0.0100"),
        ),
        topics=(TopicUse(name="orders", topic="u-1", partitions=3, records=7, bytes=1_000),),
    )  # fmt: skip


def words(page: str) -> str:
    return " ".join(re.sub(r"<style>.*</style>|<[^>]+>", " ", page, flags=re.DOTALL).split())


def test_every_line_and_the_total_can_be_read(invoice: Invoice) -> None:
    shown = words(render(invoice))
    for text in (
        "Invoice 2026-03",
        "1,324.60 EUR",
        "Tenant CLshop",
        "2026-03-01 00:00 to before 2026-04-01 00:00, UTC",
        "standard, version of 2026-01",
        "Messages stored free quota, first 10,000,000 messages 10,000,000 free 0.00",
        "from 10,000,000 messages to 1,000,000,000 messages 1,234 0.20 per 1,000,000 messages",
        "Bytes stored 5,368,709,120 5.0 GiB 0.085 per GB 0.09",
        "above 4 partitions 60 1.50 per partition and month 90.00",
        "Up to the minimum of the plan 0.01",
        "orders u-1 3 7 1,000",
    ):
        assert text in shown


def test_texts_of_others_are_escaped(invoice: Invoice) -> None:
    evil = "<script>alert(1)</script>"
    topic = replace(invoice.topics[0], name=evil)
    page = render(replace(invoice, tenant=evil, topics=(topic,)))
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 3


def test_the_page_needs_nothing_else(invoice: Invoice) -> None:
    page = render(invoice)
    assert not re.search(r"https?:|src=|@import|url\(", page)
    assert page == render(invoice)


def test_a_later_revision_says_what_it_replaces(invoice: Invoice) -> None:
    assert "Revision 2, replaces revision 1" in words(render(replace(invoice, revision=2)))
    assert "replaces" not in render(invoice)


def test_a_tenant_with_a_plan_has_an_invoice_even_over_nothing() -> None:
    assigned = [Assigned("a", PLAN), Assigned("b", None, problem="no plan")]
    (found,) = invoices(assigned, [], [], Month(2026, 3), 1)
    assert (found.tenant, found.total) == ("a", Decimal(0))
    assert "Nothing was used." in render(found)


def test_the_usage_by_day_is_below_the_topics(invoice: Invoice) -> None:
    days = [DayUse(records=2, bytes=9), *[DayUse(records=0, bytes=0)] * 30]
    page = render(invoice, daily_chart(invoice.month, days))
    assert "2026-03-01: 2 messages" in page
    assert page.index("Usage by topic") < page.index("Usage by day") < page.index("<footer>")
    assert "Usage by day" not in render(invoice)


def test_a_part_of_the_month_is_named_with_its_plan(invoice: Invoice) -> None:
    assert PLAN is not None
    new = replace(PLAN, name="new")
    parts = (Assigned("CLshop", PLAN, days=Days(0, 14, 31)),
             Assigned("CLshop", new, days=Days(14, 31, 31)))  # fmt: skip
    first = line(Resource.BYTES, -1, 7, "0", up_to_count=4_516_129, unit=10**9, unit_name="GB",
                 plan="standard", begin=date(2026, 3, 1), end=date(2026, 3, 15))  # fmt: skip
    shown = words(render(replace(invoice, plan=new, parts=parts, lines=(first,))))
    assert (
        "Price plan 2026-03-01 to 2026-03-14: standard, version of 2026-01; "
        "2026-03-15 to 2026-03-31: new, version of 2026-01"
    ) in shown
    assert (
        "free quota, first 4,516,129 bytes 2026-03-01 to 2026-03-14, plan standard 7 7 B free"
    ) in shown


def test_a_tenant_that_came_within_the_month_has_the_days_on_the_page(invoice: Invoice) -> None:
    parts = (Assigned("CLshop", PLAN, days=Days(9, 31, 31)),)
    shown = words(render(replace(invoice, parts=parts)))
    assert "Price plan 2026-03-10 to 2026-03-31: standard, version of 2026-01" in shown


def test_a_line_of_the_whole_month_needs_no_days(invoice: Invoice) -> None:
    whole = line(Resource.RECORDS, 0, 7, "1", plan="standard", begin=date(2026, 3, 1),
                 end=date(2026, 4, 1))  # fmt: skip
    assert "2026-03-31" not in words(render(replace(invoice, lines=(whole,))))


def test_the_time_zone_is_shown_and_the_month_stays_one_of_utc(invoice: Invoice) -> None:
    shown = words(render(replace(invoice, time_zone="Europe/Berlin")))
    assert "Period 2026-03-01 00:00 to before 2026-04-01 00:00, UTC" in shown
    assert (
        "In Europe/Berlin 2026-03-01 01:00 to before 2026-04-01 02:00 (the month is one of UTC)"
    ) in shown
    assert "The month and all dates are in UTC." in shown


def test_credits_and_refunds_are_lines_of_their_own(invoice: Invoice) -> None:
    lines = (
        line(Resource.RECORDS, 0, 7, "10"),
        line(Resource.CREDIT, 0, 1, "-10", price=None, id="C-1", day=date(2026, 3, 20),
             reason="<outage>"),
        line(Resource.REFUND, 0, 1, "-4", price=None, id="R-1", day=date(2026, 3, 21),
             reason="paid twice"),
    )  # fmt: skip
    page = render(replace(invoice, lines=lines))
    shown = words(page)
    assert "Credit C-1, 2026-03-20: &lt;outage&gt; -10.00" in shown
    assert "Refund R-1, 2026-03-21: paid twice -4.00" in shown
    assert "Total, to be paid back -4.00 EUR" in shown
    assert "<outage>" not in page

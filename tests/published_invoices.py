"""Invoices of two tenants, published as the billing pipeline does."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from opentalos.adapters.local.invoice_folder import SUMMARY, document_name
from opentalos.pipelines.billing.invoices.daily_chart import DayUse
from opentalos.pipelines.billing.invoices.document import document, summary
from opentalos.pipelines.billing.invoices.files import InvoiceFolder
from opentalos.pipelines.billing.invoices.invoice import Invoice, InvoiceLine, TopicUse
from opentalos.pipelines.billing.plans.price_plan import Resource
from opentalos.pipelines.billing.plans.price_plan_files import load_price_plans
from opentalos.pipelines.lake.periods.month import Month

PLANS: Final = Path(__file__).resolve().parents[1] / "examples" / "billing" / "plans"
TENANTS: Final = ("CLshop", "CLbank")


def publish(home: Path, tenants: tuple[str, ...] = TENANTS, topic: str = "orders") -> None:
    """March, which is closed, and April."""
    with pytest.MonkeyPatch.context() as patched:
        # Writing out all of a busy machine's files takes longer than a test may.
        patched.setattr("os.sync", lambda: None)
        for month in (Month(2026, 3), Month(2026, 4)):
            folder = InvoiceFolder(home, month)
            folder.publish(partial(_files, month, tenants, topic))
            if month.number == 3:  # the other one is open
                folder.close()


def _files(
    month: Month, tenants: tuple[str, ...], topic: str, revision: int
) -> Mapping[str, bytes]:
    days = [
        DayUse(records=10 * (day % 3 + 1) if day < 20 else 0, bytes=1_000 * (day % 5))
        for day in range((month.end - month.begin).days)
    ]
    days[:3] = [DayUse(records=10, bytes=1_000), DayUse(records=30, bytes=3_000), days[3]]
    files = {document_name(t): document(_invoice(month, t, topic, revision), days) for t in tenants}
    rows: list[dict[str, Any]] = [
        {
            "tenant": tenant, "plan": "standard", "currency": "EUR", "records": Decimal(40),
            "bytes": Decimal(4_000), "amount": Decimal("1.5000"), "charges": Decimal("2.0000"),
            "problem": "",
        }
        for tenant in tenants
    ]  # fmt: skip
    return files | {SUMMARY: summary(rows, revision)}


def _invoice(month: Month, tenant: str, topic: str, revision: int) -> Invoice:
    plan = load_price_plans(PLANS).at("standard", Month(2026, 3))
    assert plan is not None
    begin, end = month.begin.date(), month.end.date()
    return Invoice(
        tenant=tenant,
        month=month,
        revision=revision,
        plan=plan,
        time_zone="Europe/Berlin",
        lines=(
            _line(Resource.RECORDS, 40, "1.2000", begin, end),
            _line(Resource.BYTES, 4_000, "0.3000", begin, end),
            _line(Resource.PARTITIONS, 10, "0.5000", begin, end),
            InvoiceLine(
                resource=Resource.CREDIT, tier=0, from_count=0, up_to_count=None, quantity=1,
                unit=1, unit_name="", price=None, amount=Decimal("-0.5000"), id="c-1",
                day=begin, reason="late <b>delivery</b>",
            ),
        ),
        topics=(TopicUse(name=topic, topic="u-1", partitions=3, records=40, bytes=4_000),),
    )  # fmt: skip


def _line(resource: Resource, count: int, amount: str, begin: date, end: date) -> InvoiceLine:
    return InvoiceLine(
        resource=resource, tier=0, from_count=0, up_to_count=None, quantity=count, unit=1,
        unit_name="", price=Decimal("0.0300000000"), amount=Decimal(amount), plan="standard",
        begin=begin, end=end,
    )  # fmt: skip

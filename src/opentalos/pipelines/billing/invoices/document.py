"""An invoice as JSON, for REST and the console: the same figures as those of the page.

Amounts and prices are decimal numbers in strings, so that no reader rounds them. The cost of a day
is for a chart: what is metered by day is shared out by the day's usage, everything else evenly over
the days of its line. The costs of all days add up to the charges exactly.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

from opentalos.pipelines.billing.invoices.daily_chart import DayUse
from opentalos.pipelines.billing.invoices.invoice import Invoice, InvoiceLine
from opentalos.pipelines.billing.plans.price_plan import Resource

_STEP: Final = Decimal("0.000001")  # of the cost of a day
_SETTLED: Final = {Resource.CREDIT, Resource.REFUND}


def document(invoice: Invoice, days: Sequence[DayUse]) -> bytes:
    """The invoice. Args: days: one for each day of the month, or none at all."""
    charges = [line for line in invoice.lines if line.resource not in _SETTLED]
    found = {
        "tenant": invoice.tenant,
        "month": str(invoice.month),
        "revision": invoice.revision,
        "begin_ms": invoice.month.begin_ms,
        "end_ms": invoice.month.end_ms,
        "time_zone": invoice.time_zone,
        "plan": invoice.plan.name,
        "plan_version": str(invoice.plan.valid_from),
        "currency": invoice.plan.currency,
        "decimals": invoice.decimals,
        "charges": _text(sum((line.amount for line in charges), Decimal(0))),
        "total": _text(invoice.total),
        "lines": [_line(line) for line in invoice.lines],
        "topics": [asdict(topic) for topic in invoice.topics],
        "reads": [asdict(reads) for reads in invoice.reads],
        "kept": [asdict(kept) for kept in invoice.kept],
        "days": list(_days(invoice, charges, days)),
    }
    return _dumped(found)


def summary(totals: Sequence[Mapping[str, Any]], revision: int) -> bytes:
    """What each tenant has to pay. Args: totals: rows of ``totals``."""
    tenants = [
        {
            "tenant": row["tenant"],
            "plan": row["plan"] or "",
            "currency": row["currency"] or "",
            "records": int(row["records"]),
            "bytes": int(row["bytes"]),
            "amount": _optional(row["amount"]),
            "charges": _optional(row["charges"]),
            "problem": row["problem"] or "",
        }
        for row in totals
    ]
    return _dumped({"revision": revision, "tenants": tenants})


def _line(line: InvoiceLine) -> dict[str, Any]:
    return {
        "resource": line.resource.value,
        "free": line.tier < 0,
        "from_count": line.from_count,
        "up_to_count": line.up_to_count,
        "quantity": line.quantity,
        "unit": line.unit,
        "unit_name": line.unit_name,
        "price": _optional(line.price),
        "amount": _text(line.amount),
        "plan": line.plan,
        "begin": line.begin.isoformat() if line.begin else None,
        "end": line.end.isoformat() if line.end else None,
        "id": line.id,
        "date": line.day.isoformat() if line.day else None,
        "reason": line.reason,
    }


def _days(
    invoice: Invoice, charges: Sequence[InvoiceLine], days: Sequence[DayUse]
) -> Iterator[dict[str, Any]]:
    first = invoice.month.begin.date()
    count = (invoice.month.end.date() - first).days
    uses = days or [DayUse(records=0, bytes=0)] * count
    costs = [Decimal(0)] * count
    for line in charges:
        for day, cost in _shared_out(line, first, uses):
            costs[day] += cost
    for day, (use, cost) in enumerate(zip(uses, costs, strict=True)):
        shown = (first + timedelta(days=day)).isoformat()
        yield {"day": shown, "records": use.records, "bytes": use.bytes, "cost": _text(cost)}


def _shared_out(
    line: InvoiceLine, first: date, uses: Sequence[DayUse]
) -> Iterator[tuple[int, Decimal]]:
    """The line's amount by day of the month; the shares add up to it exactly."""
    begin = (line.begin - first).days if line.begin else 0
    end = (line.end - first).days if line.end else len(uses)
    by_day = {
        Resource.RECORDS: [use.records for use in uses],
        Resource.BYTES: [use.bytes for use in uses],
    }
    parts = by_day.get(line.resource, [1] * len(uses))[begin:end]
    if not any(parts):
        parts = [1] * len(parts)
    whole, passed, before = sum(parts), 0, Decimal(0)
    for day, part in enumerate(parts, begin):
        passed += part
        until = line.amount * passed / whole
        until = line.amount if passed == whole else until.quantize(_STEP)
        yield day, until - before
        before = until


def _optional(value: Decimal | None) -> str | None:
    return None if value is None else _text(value)


def _text(value: Decimal | int) -> str:
    return f"{Decimal(value):f}"


def _dumped(found: Mapping[str, Any]) -> bytes:
    return json.dumps(found, ensure_ascii=False, sort_keys=True).encode() + b"\n"

"""One invoice: lines, credits, cost and usage by day, topics. Made to be printed, too."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from opentalos.gateway.console.page import Page, View, Visit, url
from opentalos.gateway.console.pages.bill.bars import Bar, Bars
from opentalos.gateway.console.pages.bill.bills import SEES_ALL, cost_bars, money
from opentalos.gateway.console.paging import part

_NAMES: Final = {
    "records": ("Messages stored", "message"),
    "bytes": ("Bytes stored", "byte"),
    "egress": ("Bytes read, as measured", "byte"),
    "storage": ("Bytes kept, on average over the month", "byte and month"),
    "reserved_partitions": ("Reserved partitions", "partition and month"),
    "minimum": ("Up to the minimum of the plan", ""),
    "credit": ("Credit", ""),
    "refund": ("Refund", ""),
}
_SETTLED: Final = ("credit", "refund")
_UNPRICED: Final = ("minimum", *_SETTLED)
_OF_BYTES: Final = ("bytes", "egress", "storage")
_TIME: Final = "%Y-%m-%d %H:%M"


async def show(visit: Visit) -> View:
    """The invoice of a tenant and month."""
    tenant, month = visit.places["tenant"], visit.places["month"]
    invoice = await visit.rest.get("invoices", month, tenant)
    lines = [_line(line, invoice) for line in invoice["lines"]]
    decimals, currency = invoice["decimals"], invoice["currency"]
    trail = [("Bills", url("bills"))] if visit.who.role in SEES_ALL else []
    return View(
        template="bill/invoice.html",
        title=f"Invoice {month}",
        data={
            "invoice": invoice,
            "charged": [line for line in lines if line["resource"] not in _SETTLED],
            "settled": [line for line in lines if line["resource"] in _SETTLED],
            "total": money(invoice["total"], decimals, currency),
            "charges": money(invoice["charges"], decimals, currency),
            "paid_back": Decimal(invoice["total"]) < 0,
            "period": _period(invoice, "UTC"),
            "local": _period(invoice, invoice["time_zone"]) if invoice["time_zone"] else "",
            "days": cost_bars(invoice),
            "messages": _uses(invoice, "records", "messages"),
            "bytes": _uses(invoice, "bytes", "bytes"),
            "part": part(visit.query, invoice["topics"], rows=200),
        },
        cli=(f"talos bill invoice {tenant} --month {month}",),
        trail=(*trail, (f"Bill of {tenant}", url("bills", tenant))),
    )


def _line(line: Mapping[str, Any], invoice: Mapping[str, Any]) -> Mapping[str, Any]:
    resource = line["resource"]
    name, single = _NAMES.get(resource, (resource, ""))
    unit = line["unit_name"] or (single if line["unit"] == 1 else f"{line['unit']:,} {single}s")
    notes = []
    if line["free"]:
        notes.append("included" if resource == "reserved_partitions" else "free quota")
    elif line["from_count"] or line["up_to_count"]:
        until = f" to {line['up_to_count']:,}" if line["up_to_count"] else " on"
        notes.append(f"from {line['from_count']:,}{until}")
    if line["id"]:
        notes.append(f"{line['id']}, {line['date']}: {line['reason']}")
    elif line["begin"] and (line["begin"], line["end"]) != _days(invoice):
        notes.append(f"{line['begin']} to before {line['end']}, plan {line['plan']}")
    priced = line["price"] is not None and resource not in _UNPRICED and not line["free"]
    return {
        "resource": resource,
        "name": name,
        "notes": notes,
        "quantity": None if resource in _UNPRICED else line["quantity"],
        "of_bytes": resource in _OF_BYTES,
        "price": _plain(line["price"]) if priced else "free" if line["free"] else "",
        "unit": unit if priced else "",
        "amount": money(line["amount"], invoice["decimals"]),
    }


def _plain(price: str) -> str:
    """All significant digits, at least two decimals."""
    whole, _, rest = f"{Decimal(price):,f}".partition(".")
    return f"{whole}.{rest.rstrip('0').ljust(2, '0')}"


def _days(invoice: Mapping[str, Any]) -> tuple[str, str]:
    """First day of the month, and the day after its last."""
    begin, end = (
        datetime.fromtimestamp(invoice[name] / 1_000, UTC).date().isoformat()
        for name in ("begin_ms", "end_ms")
    )
    return begin, end


def _period(invoice: Mapping[str, Any], zone: str) -> str:
    """The month in a time zone; empty: this machine does not know the zone."""
    try:
        found = ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return ""
    begin, end = (
        datetime.fromtimestamp(invoice[name] / 1_000, found) for name in ("begin_ms", "end_ms")
    )
    return f"{begin:{_TIME}} to before {end:{_TIME}}"


def _uses(invoice: Mapping[str, Any], name: str, word: str) -> Bars:
    return Bars([Bar(day["day"], (day[name],), f"{day[name]:,} {word}") for day in invoice["days"]])


PAGES = (Page(path="bills/{tenant}/{month}", show=show),)

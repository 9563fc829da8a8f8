"""What tenants use and pay: all of them for who sees the service, else one's own.

Amounts are those of invoices that the billing pipeline published. Where there are none, pages show
usage without prices, and say how to get them: no figure is made up here.
"""

import asyncio
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from opentalos.gateway.console.page import LOOKERS, Page, Shown, View, Visit, url
from opentalos.gateway.console.pages import series
from opentalos.gateway.console.pages.bill.bars import Bar, Bars
from opentalos.gateway.console.paging import matching, part

SPANS: Final = ("1h", "24h", "7d")
REFRESH_S: Final = 30
MONTHS_SHOWN: Final = 12
SEES_ALL: Final = LOOKERS | {"billing"}


async def show(visit: Visit) -> Shown:
    """All tenants, or the caller's own page."""
    if visit.who.role not in SEES_ALL:
        return await _tenant(visit, visit.who.owner)
    month = visit.query.text("month")
    listed, status, rate = await asyncio.gather(
        visit.rest.maybe("invoices"),
        visit.rest.maybe("status"),
        series.read(visit, "bytes_in", span_s=series.SPANS["24h"], by="topic", limit=500),
    )
    invoices: Sequence[Mapping[str, Any]] = listed["invoices"] if listed else ()
    months = sorted({invoice["month"] for invoice in invoices}, reverse=True)
    month = month if month in months else (months[0] if months else "")
    rows = _tenants(status["topics"] if status else (), invoices, month)
    for row in rows:
        row["rate"] = _summed(rate, row["tenant"])
    found = matching(rows, visit.query.text("filter"), "tenant")
    return View(
        template="bill/tenants.html",
        title="Bills",
        data={
            "part": part(visit.query, found),
            "month": month,
            "months": months[:MONTHS_SHOWN],
            "totals": _totals(invoices, month),
            "most": max((row["bytes"] for row in rows), default=0),
            "configured": bool(listed and listed["configured"]),
            "readable": listed is not None,
        },
        cli=("talos bill invoice --month YYYY-MM",),
        refresh_s=REFRESH_S,
    )


async def show_tenant(visit: Visit) -> View:
    """One tenant."""
    return await _tenant(visit, visit.places["tenant"])


async def _tenant(visit: Visit, tenant: str) -> View:
    span = visit.query.choice("span", SPANS)
    listed, status, *traffic = await asyncio.gather(
        visit.rest.maybe("invoices", query={"tenant": tenant}),
        visit.rest.maybe("status"),
        *(
            series.read(visit, metric, span_s=series.SPANS[span], by="topic", limit=500)
            for metric in ("messages_in", "bytes_in", "bytes_out")
        ),
    )
    invoices: Sequence[Mapping[str, Any]] = listed["invoices"] if listed else ()
    newest = await visit.rest.maybe("invoices", invoices[0]["month"], tenant) if invoices else None
    topics = [row for row in (status["topics"] if status else ()) if row["owner"] == tenant]
    rows = [_topic(topic, traffic) for topic in topics]
    rows.sort(key=lambda row: row["bytes_in"], reverse=True)
    return View(
        template="bill/tenant.html",
        title=f"Bill of {tenant}",
        data={
            "tenant": tenant,
            "invoices": [_entry(invoice) for invoice in invoices[:MONTHS_SHOWN]],
            "newest": newest,
            "days": cost_bars(newest) if newest else None,
            "months": _month_bars(invoices[:MONTHS_SHOWN], tenant),
            "configured": bool(listed and listed["configured"]),
            "readable": listed is not None,
            "part": part(visit.query, rows),
            "sums": {
                name: sum(row[name] for row in rows)
                for name in ("messages_in", "bytes_in", "bytes_out", "stored")
            },
            "span": span,
            "spans": SPANS,
            "step_s": _step_s(traffic[1]),
        },
        cli=(f"talos bill invoice {tenant} --month YYYY-MM",),
        refresh_s=REFRESH_S,
        trail=(("Bills", url("bills")),) if visit.who.role in SEES_ALL else (),
    )


def money(text: str | None, decimals: int = 2, currency: str = "") -> str:
    """An amount as an invoice prints it; a minus stays."""
    if text is None:
        return "-"
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return text
    return f"{amount:,.{decimals}f}{' ' + currency if currency else ''}"


def cost_bars(invoice: Mapping[str, Any]) -> Bars:
    """Cost per day."""
    currency, decimals = invoice["currency"], max(2, invoice["decimals"])
    return Bars(
        [
            Bar(
                day["day"],
                (max(0.0, float(day["cost"])),),
                f"{money(day['cost'], decimals, currency)}, {day['records']:,} messages, "
                f"{day['bytes']:,} bytes",
            )
            for day in invoice["days"]
        ]
    )


def _month_bars(invoices: Sequence[Mapping[str, Any]], tenant: str) -> Bars:
    """Charges of a year until the newest invoice, the oldest month first."""
    if not invoices:
        return Bars([])
    found = {invoice["month"]: invoice for invoice in invoices}
    year, number = map(int, invoices[0]["month"].split("-"))
    last = year * MONTHS_SHOWN + number - 1
    months = [divmod(last - before, MONTHS_SHOWN) for before in range(MONTHS_SHOWN)]
    names = [f"{year:04}-{month + 1:02}" for year, month in reversed(months)]
    return Bars([_month_bar(name, found.get(name), tenant) for name in names])


def _month_bar(month: str, invoice: Mapping[str, Any] | None, tenant: str) -> Bar:
    if invoice is None:
        return Bar(month, (), "no invoice")
    text = money(invoice["charges"], 2, invoice["currency"])
    amount = max(0.0, float(invoice["charges"] or 0))
    return Bar(month, (amount,), text, url("bills", tenant, month))


def _entry(invoice: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**invoice, "shown": money(invoice["amount"], 2, invoice["currency"])}


def _topic(topic: Mapping[str, Any], traffic: Sequence[series.Series]) -> dict[str, Any]:
    """Usage of a topic within the span; the rates of a series are per second."""
    name = f"{topic['owner']}/{topic['name']}"
    messages, incoming, outgoing = (found.of("topic", name) for found in traffic)
    steps = [_step_s(found) for found in traffic]
    return {
        "name": topic["name"],
        "path": name,
        "messages_in": _sum(messages, steps[0]),
        "bytes_in": _sum(incoming, steps[1]),
        "bytes_out": _sum(outgoing, steps[2]),
        "stored": topic["bytes"] or 0,
        "rate": incoming,
    }


def _step_s(found: series.Series) -> int:
    times = found.times_s
    return times[1] - times[0] if len(times) > 1 else 1


def _sum(values: Sequence[float | None], step_s: int) -> float:
    return sum(value for value in values if value is not None) * step_s


def _tenants(
    topics: Sequence[Mapping[str, Any]], invoices: Sequence[Mapping[str, Any]], month: str
) -> list[dict[str, Any]]:
    """A row for each owner of topics and each tenant with an invoice of the month."""
    rows: dict[str, dict[str, Any]] = {}

    def row_of(tenant: str) -> dict[str, Any]:
        empty = {"tenant": tenant, "topics": 0, "bytes": 0, "messages_per_s": 0.0, "invoice": None}
        return rows.setdefault(tenant, empty)

    for topic in topics:
        row = row_of(topic["owner"])
        row["topics"] += 1
        row["bytes"] += topic["bytes"] or 0
        row["messages_per_s"] += topic["messages_per_s"] or 0
    for invoice in invoices:
        if invoice["month"] == month:
            shown = money(invoice["amount"], 2, invoice["currency"])
            row_of(invoice["tenant"])["invoice"] = {**invoice, "shown": shown}

    def order(row: dict[str, Any]) -> tuple[float, int]:
        charges = row["invoice"]["charges"] if row["invoice"] else None
        return -float(charges or 0), -row["bytes"]

    return sorted(rows.values(), key=order)


def _totals(invoices: Sequence[Mapping[str, Any]], month: str) -> Sequence[tuple[str, str]]:
    """Currency and sum of the month's invoices."""
    sums: dict[str, Decimal] = {}
    for invoice in invoices:
        if invoice["month"] == month and invoice["amount"] is not None:
            before = sums.get(invoice["currency"], Decimal(0))
            sums[invoice["currency"]] = before + Decimal(invoice["amount"])
    return [(currency, money(str(amount), 2)) for currency, amount in sorted(sums.items())]


def _summed(rate: series.Series, tenant: str) -> Sequence[float]:
    """Bytes per second of all topics of a tenant."""
    lines = [
        line.values for line in rate.lines if line.labels.get("topic", "").startswith(f"{tenant}/")
    ]
    return [sum(value or 0 for value in values) for values in zip(*lines, strict=False)]


PAGES = (
    Page(path="bills", show=show, menu="Bills"),
    Page(path="bills/{tenant}", show=show_tenant),
)

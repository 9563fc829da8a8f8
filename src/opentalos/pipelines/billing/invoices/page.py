"""An invoice as one self-contained HTML page, for the screen and for print."""

from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from html import escape
from typing import Final
from zoneinfo import ZoneInfo

from opentalos.pipelines.billing.invoices.invoice import (
    Invoice,
    InvoiceLine,
    TopicKept,
    TopicReads,
    TopicUse,
)
from opentalos.pipelines.billing.invoices.sizes import size_text
from opentalos.pipelines.billing.plans.price_plan import OF_BYTES, Resource
from opentalos.pipelines.billing.pricing import FREE_TIER

_NAMES: Final = {
    Resource.RECORDS: ("Messages stored", "message", "messages"),
    Resource.BYTES: ("Bytes stored", "byte", "bytes"),
    Resource.EGRESS: ("Bytes read, as measured", "byte", "bytes"),
    Resource.STORAGE: ("Bytes kept, on average over the month", "byte and month", "bytes"),
    Resource.PARTITIONS: ("Reserved partitions", "partition and month", "partitions"),
    Resource.MINIMUM: ("Up to the minimum of the plan", "month", ""),
    Resource.CREDIT: ("Credit", "", ""),
    Resource.REFUND: ("Refund", "", ""),
}
_UNPRICED: Final = {Resource.MINIMUM, Resource.CREDIT, Resource.REFUND}
_TIME: Final = "%Y-%m-%d %H:%M"
_STYLE: Final = """
@page{size:A4;margin:18mm}
body{font:14px/1.45 system-ui,sans-serif;color:#222;background:#fff;max-width:48rem;
margin:2.5rem auto;padding:0 1rem}
header{display:flex;justify-content:space-between;align-items:flex-end;
border-bottom:3px solid #222;padding-bottom:.8rem;margin-bottom:1.5rem}
h1{font-size:1.7rem;margin:0;letter-spacing:-.01em}
h2{font-size:1rem;margin:2.2rem 0 .4rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1.2rem;margin:0 0 1.8rem}
dt,small,footer{color:#666}dd{margin:0;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.42rem .9rem .42rem 0;border-bottom:1px solid #ddd;
vertical-align:top;overflow-wrap:anywhere}
th{font-weight:600;color:#666;font-size:.85rem;border-bottom-color:#999}
th:last-child,td:last-child{padding-right:0}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td small{display:block}
tfoot td{border-bottom:0;border-top:2px solid #222;font-weight:700;font-size:1.1rem}
tr,svg{break-inside:avoid}thead{display:table-header-group}
.due{font-size:1.7rem;font-weight:700;font-variant-numeric:tabular-nums;white-space:nowrap}
footer{margin-top:2.5rem;font-size:.85rem;border-top:1px solid #ddd;padding-top:.7rem}
"""


def render(invoice: Invoice, chart: str = "") -> str:
    """The page. Every external text is escaped; the same invoice gives the same bytes.

    Args: chart: HTML of ``daily_chart``, after the topics.
    """
    tenant, month = escape(invoice.tenant), str(invoice.month)
    total = _money(invoice, invoice.total)
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f'<link rel="icon" href="data:,"><title>Invoice {month} of {tenant}</title>',
        f"<style>{_STYLE}</style></head><body>",
        f'<header><h1>Invoice {month}</h1><span class="due">{total}</span></header>',
        *_facts(invoice),
        *_lines(invoice),
        *_topics(invoice),
        *_read(invoice),
        *_kept(invoice),
        *([chart] if chart else []),
        "<footer>Counted is what was stored, by the minute of its append time in UTC. Each "
        "amount is quantity &times; price, rounded once; what is due for a month is due for a part "
        "of it by days, and so are free quotas and tiers. The total is the sum of the amounts. The "
        "month and all dates are in UTC."
        f"{_measured(invoice)}{_averaged(invoice)}</footer></body></html>\n",
    ]
    return "\n".join(parts)


def _facts(invoice: Invoice) -> Iterator[str]:
    plan, month = invoice.plan, invoice.month
    revision = str(invoice.revision)
    if invoice.revision > 1:
        revision += f", replaces revision {invoice.revision - 1}"
    facts = {
        "Tenant": invoice.tenant,
        "Period": f"{month.begin:{_TIME}} to before {month.end:{_TIME}}, UTC",
        **_local_period(invoice),
        "Price plan": "; ".join(_plans(invoice)),
        "Currency": plan.currency,
        "Revision": revision,
    }
    yield "<dl>"
    for name, text in facts.items():
        yield f"<dt>{name}</dt><dd>{escape(text)}</dd>"
    yield "</dl>"


def _local_period(invoice: Invoice) -> dict[str, str]:
    """The same period in the tenant's time zone, for reading only."""
    if not invoice.time_zone:
        return {}
    zone, month = ZoneInfo(invoice.time_zone), invoice.month
    begin, end = month.begin.astimezone(zone), month.end.astimezone(zone)
    shown = f"{begin:{_TIME}} to before {end:{_TIME}} (the month is one of UTC)"
    return {f"In {invoice.time_zone}": shown}


def _plans(invoice: Invoice) -> Iterator[str]:
    if all(part.days.whole for part in invoice.parts):
        yield f"{invoice.plan.name}, version of {invoice.plan.valid_from}"
        return
    for part in invoice.parts:
        named = part.plan and f"{part.plan.name}, version of {part.plan.valid_from}"
        yield f"{_days(*part.days.dates(invoice.month))}: {named or part.problem}"


def _days(begin: date, end: date) -> str:
    return f"{begin.isoformat()} to {(end - timedelta(days=1)).isoformat()}"


def _lines(invoice: Invoice) -> Iterator[str]:
    yield '<table><thead><tr><th>Item</th><th class="n">Quantity</th><th class="n">Price</th>'
    yield f'<th class="n">Amount, {escape(invoice.plan.currency)}</th></tr></thead><tbody>'
    for line in invoice.lines:
        name, _, _ = _NAMES[line.resource]
        quantity = "" if line.resource in _UNPRICED else f"{line.quantity:,}"
        if line.resource in OF_BYTES:
            quantity += f"<small>{size_text(line.quantity)}</small>"
        yield (
            f"<tr><td>{name}{''.join(_notes(invoice, line))}</td>"
            f'<td class="n">{quantity}</td><td class="n">{_price(line)}</td>'
            f'<td class="n">{_amount(invoice, line.amount)}</td></tr>'
        )
    if not invoice.lines:
        yield '<tr><td colspan="4">Nothing was used.</td></tr>'
    total = "Total" if invoice.total >= 0 else "Total, to be paid back"
    yield f'</tbody><tfoot><tr><td colspan="3">{total}</td>'
    yield f'<td class="n">{_money(invoice, invoice.total)}</td></tr></tfoot></table>'


def _topics(invoice: Invoice) -> Iterator[str]:
    if not invoice.topics:
        return
    yield "<h2>Usage by topic</h2>"
    yield '<table><thead><tr><th>Topic</th><th class="n">Partitions</th>'
    yield '<th class="n">Messages</th><th class="n">Bytes</th></tr></thead><tbody>'
    yield from map(_topic, invoice.topics)
    partitions = sum(topic.partitions for topic in invoice.topics)
    records = sum(topic.records for topic in invoice.topics)
    count = sum(topic.bytes for topic in invoice.topics)
    cells = "".join(f'<td class="n">{number:,}</td>' for number in (partitions, records, count))
    yield f"</tbody><tfoot><tr><td>All</td>{cells}</tr></tfoot></table>"


def _topic(topic: TopicUse) -> str:
    numbers = (topic.partitions, topic.records, topic.bytes)
    cells = "".join(f'<td class="n">{number:,}</td>' for number in numbers)
    return f"<tr><td>{escape(topic.name)}<small>{escape(topic.topic)}</small></td>{cells}</tr>"


def _read(invoice: Invoice) -> Iterator[str]:
    if not invoice.reads:
        return
    yield "<h2>Reads by topic</h2>"
    yield '<table><thead><tr><th>Topic</th><th>Read by</th><th class="n">Messages</th>'
    yield '<th class="n">Bytes</th></tr></thead><tbody>'
    yield from map(_reads_row, invoice.reads)
    messages = sum(reads.messages for reads in invoice.reads)
    count = sum(reads.bytes for reads in invoice.reads)
    cells = "".join(f'<td class="n">{number:,}</td>' for number in (messages, count))
    yield f'</tbody><tfoot><tr><td colspan="2">All</td>{cells}</tr></tfoot></table>'


def _reads_row(reads: TopicReads) -> str:
    cells = "".join(f'<td class="n">{number:,}</td>' for number in (reads.messages, reads.bytes))
    name = f"{escape(reads.name)}<small>{escape(reads.topic)}</small>"
    return f"<tr><td>{name}</td><td>{escape(reads.reader)}</td>{cells}</tr>"


def _kept(invoice: Invoice) -> Iterator[str]:
    if not invoice.kept:
        return
    yield "<h2>Storage by topic</h2>"
    yield '<table><thead><tr><th>Topic</th><th class="n">Bytes, on average</th></tr></thead><tbody>'
    yield from map(_kept_row, invoice.kept)
    yield "</tbody></table>"


def _kept_row(kept: TopicKept) -> str:
    name = f"{escape(kept.name)}<small>{escape(kept.topic)}</small>"
    size = f"{kept.bytes:,}<small>{size_text(kept.bytes)}</small>"
    return f'<tr><td>{name}</td><td class="n">{size}</td></tr>'


def _averaged(invoice: Invoice) -> str:
    if not any(line.resource is Resource.STORAGE for line in invoice.lines):
        return ""
    return (
        " Bytes kept are payload as stored, one copy of it, from the end of its minute to the last "
        "report that it was kept; a byte that is kept for the whole month counts as 1."
    )


def _measured(invoice: Invoice) -> str:
    if not any(line.resource is Resource.EGRESS for line in invoice.lines):
        return ""
    return (
        " Bytes read are measured by the servers that returned them, by the minute of their "
        "clocks; they cannot be counted again."
    )


def _notes(invoice: Invoice, line: InvoiceLine) -> Iterator[str]:
    yield f"<small>{_range(line)}</small>"
    if line.id:
        yield f"<small>{escape(line.id)}, {line.day}: {escape(line.reason)}</small>"
    elif (
        line.begin
        and line.end
        and (line.begin, line.end)
        != (
            invoice.month.begin.date(),
            invoice.month.end.date(),
        )
    ):
        yield f"<small>{_days(line.begin, line.end)}, plan {escape(line.plan)}</small>"


def _range(line: InvoiceLine) -> str:
    """The range of units that have this price."""
    if line.resource in _UNPRICED:
        return ""
    if line.tier == FREE_TIER:
        word = "included" if line.resource is Resource.PARTITIONS else "free quota"
        return f"{word}, first {_units(line, line.up_to_count or 0)}"
    begin = _units(line, line.from_count)
    if line.up_to_count is None:
        return f"above {begin}" if line.from_count else ""
    return f"from {begin} to {_units(line, line.up_to_count)}"


def _units(line: InvoiceLine, count: int) -> str:
    """A limit of a plan, in its units if it is a multiple of them."""
    _, _, many = _NAMES[line.resource]
    if line.unit_name and count % line.unit == 0:  # a part of a month has a part of each limit
        return f"{count // line.unit:,} {escape(line.unit_name)}"
    return f"{count:,} {many}"


def _price(line: InvoiceLine) -> str:
    if line.resource in _UNPRICED or line.price is None:
        return ""
    if line.tier == FREE_TIER:
        return "free"
    _, single, many = _NAMES[line.resource]
    unit = escape(line.unit_name) or (single if line.unit == 1 else f"{line.unit:,} {many}")
    if line.resource is Resource.STORAGE and unit != single:
        unit += " and month"
    return f"{_plain(line.price)}<small>per {unit}</small>"


def _plain(price: Decimal) -> str:
    """All significant digits, with at least two decimals."""
    whole, _, rest = f"{price:,f}".partition(".")
    return f"{whole}.{rest.rstrip('0').ljust(2, '0')}"


def _amount(invoice: Invoice, amount: Decimal) -> str:
    return f"{amount:,.{invoice.decimals}f}"


def _money(invoice: Invoice, amount: Decimal) -> str:
    return f"{_amount(invoice, amount)} {escape(invoice.plan.currency)}"

"""REST of invoices: what the billing pipeline published."""

from typing import Any

from opentalos.broker.quota.invoices import LISTED_MAX, InvoiceEntry
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.forms import PRINCIPAL_ID, Form
from opentalos.gateway.rest.routing.route import Route
from opentalos.gateway.rest.routing.schema import (
    boolean,
    fields,
    integer,
    items,
    nullable,
    text,
)

READ_S = 20.0
_FORM = Form(r"^[0-9]{4}-(0[1-9]|1[0-2])$", "YYYY-MM")
_MONTH = text(_FORM, about="Month in UTC.")
_TENANT = text(PRINCIPAL_ID, about="Owner of topics: an organisation, or a principal without one.")
_AMOUNT = text(about="Decimal number.")
_ENTRY = fields(
    month=text(),
    closed=boolean("Whether it is final."),
    revision=integer(),
    tenant=text(),
    plan=text(),
    currency=text(),
    records=integer(about="Messages stored."),
    bytes=integer(),
    amount=nullable(text(about="Decimal number; null: not billed.")),
    charges=nullable(text(about="The amount without credits and refunds.")),
    problem=text(about="Why it, or a part of the month, was not billed; or empty."),
)
_LINE = fields(
    resource=text(),
    free=boolean("Of the free quota."),
    from_count=integer(),
    up_to_count=nullable(integer()),
    quantity=integer(),
    unit=integer(),
    unit_name=text(),
    price=nullable(text(about="Decimal number, of one unit.")),
    amount=_AMOUNT,
    plan=text(),
    begin=nullable(text(about="First day, in UTC.")),
    end=nullable(text(about="The day after the last.")),
    id=text(about="Of a credit or refund, as are the following."),
    date=nullable(text()),
    reason=text(),
)
_NAMED = {"name": text(), "topic": text(about="Unique id.")}
_INVOICE = fields(
    tenant=text(),
    month=text(),
    closed=boolean("Whether it is final."),
    revision=integer(),
    begin_ms=integer(),
    end_ms=integer(),
    time_zone=text(about="Of the tenant, for reading only; empty: UTC."),
    plan=text(),
    plan_version=text(),
    currency=text(),
    decimals=integer(about="Of amounts."),
    charges=_AMOUNT,
    total=_AMOUNT,
    lines=items(_LINE),
    topics=items(fields(**_NAMED, partitions=integer(), records=integer(), bytes=integer())),
    reads=items(fields(**_NAMED, reader=text(), messages=integer(), bytes=integer())),
    kept=items(fields(**_NAMED, bytes=integer(about="On average over the month."))),
    days=items(
        fields(
            day=text(),
            records=integer(),
            bytes=integer(),
            cost=text(about="Share of the charges: by usage of the day, or evenly."),
        )
    ),
)


async def list_invoices(call: Call) -> Answer:
    """Totals by month and tenant."""
    call.exchange.extend(READ_S)
    invoices, query = call.broker.invoices, call.query
    found = await invoices.listed(
        call.caller, tenant=query.get("tenant", ""), month=query.get("month", "")
    )
    return Answer({"configured": invoices.configured, "invoices": list(map(_shown, found))})


async def get_invoice(call: Call) -> Answer:
    """One invoice with its lines."""
    call.exchange.extend(READ_S)
    places = call.places
    found = await call.broker.invoices.invoice(call.caller, places["tenant"], places["month"])
    return Answer(dict(found))


def _shown(entry: InvoiceEntry) -> dict[str, Any]:
    return {
        "month": entry.month,
        "closed": entry.closed,
        "revision": entry.revision,
        **entry.fields,
    }


_TAG = "usage"
ROUTES = (
    Route(
        method="GET", path="invoices", handler=list_invoices, tag=_TAG,
        summary="List invoices that the billing pipeline published, the newest month first.",
        reply=fields(
            configured=boolean("False: [billing] invoices of this server names no folder."),
            invoices=items(_ENTRY, maximum=LISTED_MAX),
        ),
        query={"month": _MONTH, "tenant": _TENANT},
        notes="All tenants for administrators and roles that see invoices, else the caller's own. "
        "A tenant that does not exist, or that the caller may not see, has none.",
    ),
    Route(
        method="GET", path="invoices/{month}/{tenant}", handler=get_invoice, tag=_TAG,
        summary="Show an invoice: lines, topics, and usage and cost by day.", reply=_INVOICE,
        places={"month": _MONTH, "tenant": _TENANT},
    ),
)  # fmt: skip

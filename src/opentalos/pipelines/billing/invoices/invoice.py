"""Invoices as values, made of the tables of lines and topics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import groupby
from typing import Any, Final, NamedTuple

from opentalos.pipelines.billing.plans.price_plan import PricePlan, Resource
from opentalos.pipelines.billing.plans.tenant_plans import Assigned
from opentalos.pipelines.billing.pricing import month_minutes
from opentalos.pipelines.lake.periods.month import Month


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceLine:
    """One price times one quantity; only ``amount`` is rounded."""

    resource: Resource
    tier: int
    from_count: int
    up_to_count: int | None
    quantity: int
    unit: int
    unit_name: str
    price: Decimal | None  # None: of a credit or refund
    amount: Decimal
    plan: str = ""
    begin: date | None = None  # first day of its part of the month, in UTC
    end: date | None = None  # the day after the last
    id: str = ""  # this and the following: of a credit or refund
    day: date | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUse:
    """The usage of one topic in the month."""

    name: str
    topic: str
    partitions: int  # with usage
    records: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReads:
    """What one tenant read of one topic in the month, as it was measured."""

    name: str
    topic: str
    reader: str
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicKept:
    """What was kept of one topic, on average over the month."""

    name: str
    topic: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoice:
    """The invoice of one tenant for one month; ``plan``: the last one."""

    tenant: str
    month: Month
    revision: int  # from 1; increases when a closed month is reopened
    plan: PricePlan
    lines: tuple[InvoiceLine, ...]
    topics: tuple[TopicUse, ...]
    parts: tuple[Assigned, ...] = ()  # of the month, with their plans
    time_zone: str = ""  # for display; empty: UTC
    reads: tuple[TopicReads, ...] = ()
    kept: tuple[TopicKept, ...] = ()

    @property
    def decimals(self) -> int:
        """Of its amounts."""
        return max([self.plan.decimals, *(part.plan.decimals for part in self.parts if part.plan)])

    @property
    def total(self) -> Decimal:
        """The sum of the lines."""
        return sum((line.amount for line in self.lines), Decimal(0))


Rows = Sequence[Mapping[str, Any]]


class Others(NamedTuple):
    """What only plans with a price for it have on their invoices."""

    reads: Rows = ()  # of ``reads_table``
    kept: Rows = ()  # of ``kept_table``


NO_OTHERS: Final = Others()


def invoices(
    assigned: Sequence[Assigned],
    lines: Rows,
    topics: Rows,
    month: Month,
    revision: int,
    others: Others = NO_OTHERS,
) -> Iterator[Invoice]:
    """An invoice for each tenant that has a plan, even if its total is zero.

    Args: lines: with the columns of ``pricing.LINES``; topics: of ``topic_totals``.
    """
    lines_of, topics_of, reads_of, kept_of = map(_by_tenant, (lines, topics, *others))
    for tenant, entries in groupby(assigned, key=lambda entry: entry.tenant):
        parts = tuple(entries)
        plans = [part.plan for part in parts if part.plan is not None]
        if plans:
            yield Invoice(
                tenant=tenant,
                month=month,
                revision=revision,
                plan=plans[-1],
                lines=tuple(map(_line, lines_of.get(tenant, ()))),
                topics=tuple(map(_topic, topics_of.get(tenant, ()))),
                parts=parts,
                time_zone=parts[-1].time_zone,
                reads=tuple(map(_reads, reads_of.get(tenant, ()))),
                kept=tuple(_kept(row, month) for row in kept_of.get(tenant, ())),
            )


def _by_tenant(rows: Rows) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["tenant"], []).append(row)
    return found


def _line(row: Mapping[str, Any]) -> InvoiceLine:
    end = row["up_to_count"]
    return InvoiceLine(
        resource=Resource(row["resource"]),
        tier=row["tier"],
        from_count=int(row["from_count"]),
        up_to_count=None if end is None else int(end),
        quantity=int(row["quantity"]),
        unit=int(row["unit"]),
        unit_name=row["unit_name"],
        price=row["price"],
        amount=row["amount"],
        plan=row["plan"] or "",
        begin=row["period_begin"],
        end=row["period_end"],
        id=row["id"] or "",
        day=row["date"],
        reason=row["reason"] or "",
    )


def _reads(row: Mapping[str, Any]) -> TopicReads:
    return TopicReads(
        name=row["name"],
        topic=row["topic"],
        reader=row["reader"],
        messages=int(row["messages"]),
        bytes=int(row["bytes"]),
    )


def _kept(row: Mapping[str, Any], month: Month) -> TopicKept:
    average = int(row["byte_minutes"]) // month_minutes(month)
    return TopicKept(name=row["name"], topic=row["topic"], bytes=average)


def _topic(row: Mapping[str, Any]) -> TopicUse:
    return TopicUse(
        name=row["name"],
        topic=row["topic"],
        partitions=row["partitions"],
        records=int(row["records"]),
        bytes=int(row["bytes"]),
    )

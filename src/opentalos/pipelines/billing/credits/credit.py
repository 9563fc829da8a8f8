"""Credits and refunds as values, and how much of each an invoice takes; pure.

A credit lowers an invoice, but never below zero: what is left goes to the next month's. A refund is
paid back: the invoice takes all that is left of it, and its total may be below zero. Both are known
by their ids: what other invoices took is not taken again, so applying them twice changes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from opentalos.pipelines.billing.plans.price_plan import Resource
from opentalos.pipelines.billing.plans.tenant_plans import Assigned
from opentalos.pipelines.lake.periods.month import Month


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """One credit or refund; ``day``: of UTC, whose month's invoice is the first to have it."""

    kind: Resource  # CREDIT or REFUND
    id: str
    tenant: str
    day: date
    amount: Decimal  # above 0
    currency: str
    reason: str


@dataclass(frozen=True, slots=True)
class Taken:
    """What one invoice takes of one credit or refund; above 0."""

    credit: Credit
    amount: Decimal


def taken(charges: Decimal, credits: Iterable[Credit], used: Mapping[str, Decimal]) -> list[Taken]:
    """What an invoice over ``charges`` takes: of credits in the order of date and id, then refunds.

    Args: used: what the invoices of other months take, by id.
    """
    found, due = [], charges
    for credit in sorted(credits, key=lambda credit: (credit.kind, credit.day, credit.id)):
        amount = max(Decimal(0), credit.amount - used.get(credit.id, Decimal(0)))
        if credit.kind is Resource.CREDIT:
            amount = min(amount, max(due, Decimal(0)))
            due -= amount
        if amount:
            found.append(Taken(credit, amount))
    return found


def with_credits(
    rows: Iterable[Mapping[str, Any]],
    assigned: Iterable[Assigned],
    credits: Iterable[Credit],
    used: Mapping[str, Decimal],
    month: Month,
) -> tuple[list[dict[str, Any]], list[str]]:
    """The lines with those of credits and refunds at each tenant's end, and the problems.

    Args: rows: of ``priced_rows``.
    """
    lines: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        lines.setdefault(row["tenant"], []).append(dict(row))
    plans = {entry.tenant: entry.plan for entry in assigned if entry.plan is not None}
    decimals: dict[str, int] = {}
    for entry in assigned:
        if entry.plan is not None:
            known = decimals.get(entry.tenant, 0)
            decimals[entry.tenant] = max(known, entry.plan.decimals)
    problems: list[str] = []
    wanted: dict[str, list[Credit]] = {}
    for credit in credits:
        if credit.day >= month.end.date() or used.get(credit.id) == credit.amount:
            continue
        plan = plans.get(credit.tenant)
        problem = (
            _no_invoice(credit, month)
            if plan is None
            else _unfit(credit, plan.currency, decimals[credit.tenant], used)
        )
        if problem:
            problems.append(f"tenant {credit.tenant}: {credit.kind} {credit.id} {problem}")
        elif plan is not None:
            wanted.setdefault(credit.tenant, []).append(credit)
    for tenant, entries in wanted.items():
        charges = sum((row["amount"] for row in lines.get(tenant, ())), Decimal(0))
        for item in taken(charges, entries, used):
            lines.setdefault(tenant, []).append(_row(item, decimals[tenant]))
    return [row for tenant in sorted(lines) for row in lines[tenant]], sorted(problems)


def carried(rows: Iterable[Mapping[str, Any]], month: Month) -> Iterator[Mapping[str, Any]]:
    """The lines of credits and refunds that are from earlier months."""
    for row in rows:
        if row["id"] is not None and row["date"] < month.begin.date():
            yield row


def _no_invoice(credit: Credit, month: Month) -> str:
    """A problem only in its own month; later it waits until the tenant has an invoice again."""
    return "has no invoice, since the tenant has no plan" if _is_of(credit, month) else ""


def _is_of(credit: Credit, month: Month) -> bool:
    return month.begin.date() <= credit.day < month.end.date()


def _unfit(credit: Credit, currency: str, decimals: int, used: Mapping[str, Decimal]) -> str:
    if credit.currency != currency:
        return f"is in {credit.currency}, the invoice in {currency}"
    if credit.amount != round(credit.amount, decimals):
        return f"is {credit.amount:f}, but the invoice has {decimals} decimals"
    spent = used.get(credit.id, Decimal(0))
    if spent > credit.amount:
        return f"is {credit.amount:f}, but the invoices of other months took {spent:f} of it"
    return ""


def _row(item: Taken, decimals: int) -> dict[str, Any]:
    credit = item.credit
    return {
        "tenant": credit.tenant,
        "currency": credit.currency,
        "decimals": decimals,
        "resource": credit.kind,
        "tier": 0,
        "from_count": 0,
        "quantity": 1,
        "unit": 1,
        "unit_name": "",
        "amount": -item.amount,
        "id": credit.id,
        "date": credit.day,
        "reason": credit.reason,
    }

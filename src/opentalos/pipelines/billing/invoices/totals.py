"""The totals of a month's invoices: one row per tenant."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from opentalos.pipelines.billing.plans.tenant_plans import Assigned
from opentalos.pipelines.billing.pricing import AMOUNT_ARROW
from opentalos.pipelines.lake.periods.month import Month

TOTALS_SCHEMA: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("month", pa.string()),
        ("revision", pa.int32()),
        ("plan", pa.string()),  # the last of the month
        ("plan_version", pa.string()),
        ("currency", pa.string()),
        ("records", pa.decimal128(38, 0)),
        ("bytes", pa.decimal128(38, 0)),
        ("amount", AMOUNT_ARROW),  # null: not billed
        ("problem", pa.string()),  # why it, or a part of the month, was not billed; or empty
        ("charges", AMOUNT_ARROW),  # the amount without credits and refunds
    ]
)

Rows = Iterable[Mapping[str, Any]]


def totals(
    assigned: Sequence[Assigned], lines: Rows, topics: Rows, month: Month, revision: int
) -> pa.Table:
    """One row per tenant, including those that could not be billed."""
    records, count = _sums(topics, "records"), _sums(topics, "bytes")
    amounts = _sums(lines, "amount")
    charges = _sums((row for row in lines if row["id"] is None), "amount")
    rows = []
    for tenant, entries in groupby(assigned, key=lambda entry: entry.tenant):
        parts = list(entries)
        plan = next((part.plan for part in reversed(parts) if part.plan is not None), None)
        problems = (part.problem_of(month) for part in parts)
        rows.append(
            {
                "tenant": tenant,
                "month": str(month),
                "revision": revision,
                "plan": plan and plan.name,
                "plan_version": plan and str(plan.valid_from),
                "currency": plan and plan.currency,
                "records": records.get(tenant, 0),
                "bytes": count.get(tenant, 0),
                "amount": amounts.get(tenant, 0) if plan else None,
                "problem": "; ".join(filter(None, problems)),
                "charges": charges.get(tenant, 0) if plan else None,
            }
        )
    return pa.Table.from_pylist(rows, TOTALS_SCHEMA)


def _sums(rows: Rows, name: str) -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    for row in rows:
        found[row["tenant"]] = found.get(row["tenant"], Decimal(0)) + row[name]
    return found

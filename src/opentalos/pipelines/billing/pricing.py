"""Prices a month's totals: pure functions over integers and decimals.

No value is a float. The amount of metered usage is count x price / unit, exact until it is rounded
once, by the plan's rule, to the smallest unit of the currency. What is due for a whole month, in a
part of it, is the difference of two such rounded amounts, from the month's first to the part's end
and to its begin: the parts of any split add up to the whole, to the last cent.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from opentalos.pipelines.billing.plans.days import Days
from opentalos.pipelines.billing.plans.price_plan import (
    AMOUNT_DECIMALS_MAX,
    COUNT_DIGITS,
    METERED,
    PRICE_DECIMALS,
    PRICE_DIGITS,
    PricePlan,
    Rate,
    Resource,
    Rounding,
)
from opentalos.pipelines.billing.plans.tenant_plans import Assigned
from opentalos.pipelines.lake.periods.month import Month
from opentalos.wire.metrics.usage import MINUTE_MS

AMOUNT_ARROW: Final = pa.decimal128(COUNT_DIGITS + AMOUNT_DECIMALS_MAX, AMOUNT_DECIMALS_MAX)
_COUNT_ARROW: Final = pa.decimal128(COUNT_DIGITS, 0)
FREE_TIER: Final = -1  # number of the tier for the free quota
LINES: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("line", pa.int32()),
        ("plan", pa.string()),
        ("plan_version", pa.string()),
        ("currency", pa.string()),
        ("decimals", pa.int32()),
        ("resource", pa.string()),
        ("tier", pa.int32()),
        ("from_count", _COUNT_ARROW),
        ("up_to_count", _COUNT_ARROW),
        ("quantity", _COUNT_ARROW),
        ("unit", pa.decimal128(16, 0)),
        ("unit_name", pa.string()),
        ("price", pa.decimal128(PRICE_DIGITS, PRICE_DECIMALS)),
        ("amount", AMOUNT_ARROW),
        ("period_begin", pa.date32()),  # days of UTC
        ("period_end", pa.date32()),  # the day after the last
        ("id", pa.string()),  # this and the following: of credits and refunds
        ("date", pa.date32()),
        ("reason", pa.string()),
    ]
)

Row = dict[str, Any]
Rows = Iterable[Mapping[str, Any]]


def priced_rows(assigned: Sequence[Assigned], spans: Rows, month: Month) -> Iterator[Row]:
    """The lines of all tenants for usage, reserved partitions and minimums, in their order.

    Args: spans: tenant, day, records and bytes, of ``span_totals``, perhaps egress and storage, the
          latter in byte-minutes; no plan changes in a span.
    """
    used: dict[str, list[Mapping[str, Any]]] = {}
    for span in spans:
        used.setdefault(span["tenant"], []).append(span)
    for tenant, parts in groupby(assigned, key=lambda entry: entry.tenant):
        for run in _runs(parts):
            yield from _run_rows(run, used.get(tenant, []), month)


def line_table(rows: Iterable[Row]) -> pa.Table:
    """The table of all lines, numbered per tenant in the order given. Raises: pa.ArrowInvalid: an
    amount or count is too large."""
    numbered: list[Row] = []
    numbers: dict[str, int] = {}
    for row in rows:
        number = numbers[row["tenant"]] = numbers.get(row["tenant"], 0) + 1
        numbered.append({**row, "line": number})
    return pa.Table.from_pylist(numbered, LINES)


def rounded(numerator: int, denominator: int, rule: Rounding) -> int:
    """The quotient of two numbers that are not negative, as an integer."""
    below, rest = divmod(numerator, denominator)
    goes_up = {
        Rounding.UP: rest > 0,
        Rounding.DOWN: False,
        Rounding.HALF_UP: 2 * rest >= denominator,
        Rounding.HALF_EVEN: 2 * rest > denominator or (2 * rest == denominator and below % 2 == 1),
    }
    return below + goes_up[rule]


def month_minutes(month: Month) -> int:
    """So many byte-minutes are a byte for the month."""
    return (month.end_ms - month.begin_ms) // MINUTE_MS


def _runs(parts: Iterable[Assigned]) -> Iterator[list[Assigned]]:
    """Successive parts with one plan; only their reserved partitions differ."""
    run: list[Assigned] = []
    for part in parts:
        if run and not (run[-1].plan == part.plan and run[-1].days.end == part.days.begin):
            yield run
            run = []
        run.append(part)
    if run:
        yield run


def _run_rows(run: list[Assigned], spans: Rows, month: Month) -> Iterator[Row]:
    plan = run[0].plan
    if plan is None:
        return
    days = run[0].days._replace(end=run[-1].days.end)
    within = [span for span in spans if days.whole or days.begin <= span["day"] < days.end]
    charges = Decimal(0)
    for row in (*_metered_rows(plan, within, (days, month)), *_reserved_rows(plan, run)):
        charges += row["amount"]
        yield _whole_row(run[0].tenant, plan, row, month)
    missing = _money(days.share(_smallest(plan, plan.minimum)), plan)
    if charges < missing:
        numbers: Row = {"quantity": 1, "unit": 1, "tier": 0, "from_count": 0, "unit_name": ""}
        amounts: Row = {"price": missing, "amount": missing - charges}
        row = {"resource": Resource.MINIMUM, "days": days, **numbers, **amounts}
        yield _whole_row(run[0].tenant, plan, row, month)


def _metered_rows(
    plan: PricePlan, spans: Sequence[Mapping[str, Any]], part: tuple[Days, Month]
) -> Iterator[Row]:
    days, month = part
    for resource in METERED:
        rate = plan.rates.get(resource)
        if rate is None:
            continue
        quantity = sum(int(span.get(resource, 0)) for span in spans)
        if resource is Resource.STORAGE:
            quantity //= month_minutes(month)
        for row in _tier_rows(rate, quantity, days):
            exact = row["quantity"] * _scaled(row["price"])
            amount = _money(rounded(exact, _divisor(rate, plan), plan.rounding), plan)
            yield {"resource": resource, "days": days, "amount": amount, **row}


def _reserved_rows(plan: PricePlan, run: list[Assigned]) -> Iterator[Row]:
    """By days: the number of partitions is one, whatever part of the month it is for."""
    rate = plan.rates.get(Resource.PARTITIONS)
    if rate is None:
        return
    for part in run:
        days = part.days
        for row in _tier_rows(rate, part.reserved_partitions, Days(0, days.of, days.of)):
            exact, divisor = row["quantity"] * _scaled(row["price"]), _divisor(rate, plan) * days.of
            until_end, until_begin = (
                rounded(exact * day, divisor, plan.rounding) for day in (days.end, days.begin)
            )
            amount = _money(until_end - until_begin, plan)
            yield {"resource": Resource.PARTITIONS, "days": days, "amount": amount, **row}


def _tier_rows(rate: Rate, quantity: int, days: Days) -> Iterator[Row]:
    """The quantity by tiers, of which each has its share of the month's; the free quota is one."""
    begin = days.share(rate.free * rate.unit)
    unit: Row = {"unit": rate.unit, "unit_name": rate.unit_name}
    if begin and quantity:
        free: Row = {"tier": FREE_TIER, "from_count": 0, "up_to_count": begin, "price": Decimal(0)}
        yield unit | free | {"quantity": min(quantity, begin)}
    for number, tier in enumerate(rate.tiers):
        if quantity <= begin:
            return
        width = None if tier.end is None else days.share((tier.end - tier.begin) * rate.unit)
        end = None if width is None else begin + width
        within = (quantity if end is None else min(quantity, end)) - begin
        if within:
            row: Row = {"tier": number, "from_count": begin, "up_to_count": end}
            yield unit | row | {"price": tier.price, "quantity": within}
        begin = quantity if end is None else end


def _whole_row(tenant: str, plan: PricePlan, row: Row, month: Month) -> Row:
    begin, end = row.pop("days").dates(month)
    return {
        "tenant": tenant,
        "plan": plan.name,
        "plan_version": str(plan.valid_from),
        "currency": plan.currency,
        "decimals": plan.decimals,
        "period_begin": begin,
        "period_end": end,
        **row,
    }


def _scaled(price: Decimal) -> int:
    return int(price.scaleb(PRICE_DECIMALS))


def _divisor(rate: Rate, plan: PricePlan) -> int:
    """Of count x scaled price, for an amount in the currency's smallest units."""
    return rate.unit * int(10 ** (PRICE_DECIMALS - plan.decimals))


def _smallest(plan: PricePlan, amount: Decimal) -> int:
    return int(amount.scaleb(plan.decimals))


def _money(smallest: int, plan: PricePlan) -> Decimal:
    return Decimal(smallest).scaleb(-plan.decimals)

"""Prices a month's usage: DataFrame functions over exact decimals.

No value is a float. A line's amount is count x price / unit, exact until it is rounded once, by the
plan's rule, to the smallest unit of the currency. Division is integer division with a remainder,
since a decimal of Spark cannot represent every quotient. A value that does not fit its type fails
the query (ANSI mode) and never becomes null.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

from opentalos.pipelines.billing.plans.price_plan import (
    AMOUNT_DECIMALS_MAX,
    COUNT_DIGITS,
    PRICE_DECIMALS,
    PRICE_DIGITS,
    PricePlan,
    Rate,
    Resource,
    Rounding,
)
from opentalos.pipelines.billing.plans.tenant_plans import Assigned

COUNT: Final = DecimalType(COUNT_DIGITS, 0)
AMOUNT: Final = DecimalType(COUNT_DIGITS + AMOUNT_DECIMALS_MAX, AMOUNT_DECIMALS_MAX)
_WIDEST: Final = DecimalType(38, 0)
_COUNT_ARROW: Final = pa.decimal128(COUNT_DIGITS, 0)
_PRICE_ARROW: Final = pa.decimal128(PRICE_DIGITS, PRICE_DECIMALS)
_AMOUNT_ARROW: Final = pa.decimal128(AMOUNT.precision, AMOUNT.scale)
_UNIT_ARROW: Final = pa.decimal128(16, 0)
_ENDS: Final = ("first_offset", "next_offset")  # of a minute
_HALVES: Final = (0, 32)  # of a hash, by their lowest bit
_HALF_MASK: Final = (1 << 32) - 1
_FREE: Final = -1  # number of the tier for the free quota
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
        ("unit", _UNIT_ARROW),
        ("unit_name", pa.string()),
        ("price", _PRICE_ARROW),
        ("amount", _AMOUNT_ARROW),
    ]
)
_PRICED_COLUMNS: Final = tuple(name for name in LINES.names if name != "line")
_ORDER: Final = tuple(Resource)
_PRICES: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("plan", pa.string()),
        ("plan_version", pa.string()),
        ("currency", pa.string()),
        ("decimals", pa.int32()),
        ("rounding", pa.string()),
        ("resource", pa.string()),
        ("tier", pa.int32()),
        ("from_count", _COUNT_ARROW),
        ("up_to_count", _COUNT_ARROW),
        ("unit", _UNIT_ARROW),
        ("unit_name", pa.string()),
        ("price", _PRICE_ARROW),
        ("scaled_price", pa.decimal128(PRICE_DIGITS, 0)),  # a whole number
        ("divisor", pa.decimal128(38, 0)),  # of quantity x scaled_price, for ``smallest`` units
        ("smallest", pa.decimal128(AMOUNT_DECIMALS_MAX + 1, AMOUNT_DECIMALS_MAX)),
    ]
)
_RESERVED: Final = pa.schema([("tenant", pa.string()), ("quantity", _COUNT_ARROW)])


def partition_totals(usage: DataFrame) -> DataFrame:
    """One row per tenant, topic and partition: totals, range of offsets, hashes of its ends."""
    return usage.groupBy("tenant", "topic", "partition").agg(
        F.max("name").alias("name"),
        F.sum(F.col("records").cast(COUNT)).cast(COUNT).alias("records"),
        F.sum(F.col("bytes").cast(COUNT)).cast(COUNT).alias("bytes"),
        F.min("first_offset").alias("first_offset"),
        F.max("next_offset").alias("next_offset"),
        *(F.sum(_print(name, half)).alias(f"{name}_{half}") for name in _ENDS for half in _HALVES),
    )


def topic_totals(partitions: DataFrame) -> DataFrame:
    """One row per tenant and topic, from ``partition_totals``."""
    return partitions.groupBy("tenant", "topic").agg(
        F.max("name").alias("name"),
        F.count("*").cast("int").alias("partitions"),
        F.sum("records").cast(COUNT).alias("records"),
        F.sum("bytes").cast(COUNT).alias("bytes"),
    )


def broken_chains(partitions: DataFrame) -> DataFrame:
    """The partitions, from ``partition_totals``, whose minutes have gaps or overlaps.

    In a chain of minutes every offset at which one ends is one at which another begins, except for
    the last and the first. So the sums of these offsets' hashes agree; a gap and an overlap of the
    same length only agree in the number of records. Source: docs/operating/billing.md.
    """
    prints = [f"{name}_{half}" for name in _ENDS for half in _HALVES]
    whole = partitions.groupBy("topic", "partition").agg(
        F.max("next_offset").alias("next_offset"),
        F.min("first_offset").alias("first_offset"),
        F.sum("records").alias("records"),
        *(F.sum(name).alias(name) for name in prints),
    )
    spanned = (F.col("next_offset") - F.col("first_offset")).cast(COUNT)
    broken = spanned != F.col("records")
    for half in _HALVES:
        inner = [F.col(f"{name}_{half}") - _print(name, half) for name in _ENDS]
        broken |= inner[0] != inner[1]
    return whole.where(broken).select("topic", "partition")


def _print(name: str, half: int) -> Column:
    """Half of the hash of an offset: sums of 2 ** 31 of them fit."""
    return F.shiftright(F.xxhash64(name), half).bitwiseAND(F.lit(_HALF_MASK))


def gaps(usage: DataFrame) -> DataFrame:
    """Partitions whose minutes have gaps or overlaps, which are counted apart.

    Columns: topic, partition, name; missing and doubled, the records in no minute and in two.
    """
    before = Window.partitionBy("topic", "partition").orderBy("minute")
    end = F.max("next_offset").over(before.rowsBetween(Window.unboundedPreceding, -1))
    step = (F.col("first_offset") - end).cast(COUNT)
    off = (F.col("records") - (F.col("next_offset") - F.col("first_offset"))).cast(COUNT)
    zero = F.lit(0).cast(COUNT)
    steps = usage.select(
        *("topic", "partition", "name"),
        F.greatest(step, zero).alias("gap"),
        F.greatest(-step, zero).alias("overlap"),
        F.greatest(-off, zero).alias("fewer"),
        F.greatest(off, zero).alias("more"),
    )
    return (
        steps.groupBy("topic", "partition")
        .agg(
            F.max("name").alias("name"),
            F.sum(F.col("gap") + F.col("fewer")).cast(COUNT).alias("missing"),
            F.sum(F.col("overlap") + F.col("more")).cast(COUNT).alias("doubled"),
        )
        .where("missing <> 0 OR doubled <> 0")
    )


def price_table(spark: SparkSession, assigned: Iterable[Assigned]) -> DataFrame:
    """A row per tenant, resource and tier: units from ``from_count`` on have ``price``."""
    rows = [row for entry in assigned if entry.plan is not None for row in _price_rows(entry)]
    return spark.createDataFrame(pa.Table.from_pylist(rows, _PRICES))


def reserved_table(spark: SparkSession, assigned: Iterable[Assigned]) -> DataFrame:
    """The number of partitions reserved for each tenant."""
    rows = [
        {"tenant": entry.tenant, "quantity": Decimal(entry.reserved_partitions)}
        for entry in assigned
    ]
    return spark.createDataFrame(pa.Table.from_pylist(rows, _RESERVED))


def line_items(topics: DataFrame, reserved: DataFrame, prices: DataFrame) -> DataFrame:
    """What each tenant pays for each tier, in any order; an unused tier has no row.

    Args: topics: of ``topic_totals``; reserved: of ``reserved_table``; prices: of ``price_table``.
    """
    found = prices.join(_quantities(topics, reserved), ["tenant", "resource"])
    reached = F.least("quantity", "up_to_count")  # ignores null, which means no end
    counted = found.withColumn("quantity", (reached - F.col("from_count")).cast(COUNT))
    return _amount(counted.where("quantity > 0")).select(*_PRICED_COLUMNS)


def invoice_lines(priced: pa.Table, assigned: Iterable[Assigned]) -> pa.Table:
    """The lines of all invoices by tenant and number, including those for a plan's minimum.

    Args: priced: the rows of ``line_items``.
    """
    of_tenant: dict[str, list[dict[str, Any]]] = {}
    for row in priced.to_pylist():
        of_tenant.setdefault(row["tenant"], []).append(row)
    rows: list[dict[str, Any]] = []
    for entry in assigned:
        used = of_tenant.get(entry.tenant, [])
        used += _minimum_row(entry, sum((row["amount"] for row in used), Decimal(0)))
        used.sort(key=lambda row: (_ORDER.index(row["resource"]), row["tier"]))
        rows += ({**row, "line": number} for number, row in enumerate(used, 1))
    return pa.Table.from_pylist(rows, LINES)


def _quantities(topics: DataFrame, reserved: DataFrame) -> DataFrame:
    tenants = topics.groupBy("tenant").agg(
        *(F.sum(name).cast(COUNT).alias(name) for name in (Resource.RECORDS, Resource.BYTES))
    )
    metered = tenants.unpivot(
        "tenant", [Resource.RECORDS, Resource.BYTES], "resource", "quantity"
    ).select("tenant", "resource", "quantity")
    booked = reserved.select("tenant", F.lit(Resource.PARTITIONS).alias("resource"), "quantity")
    return metered.unionByName(booked)


def _amount(used: DataFrame) -> DataFrame:
    """With ``amount`` = quantity x price / unit, rounded once to ``smallest``.

    In steps, since Spark evaluates a subexpression as often as it is used.
    """
    product = (F.col("quantity") * F.col("scaled_price")).cast(_WIDEST)
    divided = used.withColumn("_product", product).withColumn(
        "_rest", (F.col("_product") % F.col("divisor")).cast(_WIDEST)
    )
    exact = (F.col("_product") - F.col("_rest")) / F.col("divisor")
    whole = divided.withColumn("_whole", exact.cast(COUNT))
    rounded = (F.col("_whole") + F.when(_goes_up(), 1).otherwise(0)).cast(COUNT)
    return whole.withColumn("amount", (rounded * F.col("smallest")).cast(AMOUNT))


def _goes_up() -> Column:
    rule, rest = F.col("rounding"), F.col("_rest")
    half = F.when(rest + rest > F.col("divisor"), 1).when(rest + rest < F.col("divisor"), -1)
    compared = F.coalesce(half, F.lit(0))
    odd = F.col("_whole") % 2 == 1
    return (
        F.when(rule == Rounding.UP.value, rest > 0)
        .when(rule == Rounding.HALF_UP.value, compared >= 0)
        .when(rule == Rounding.HALF_EVEN.value, (compared > 0) | ((compared == 0) & odd))
        .otherwise(False)
    )


def _minimum_row(entry: Assigned, amounts: Decimal) -> list[dict[str, Any]]:
    """A line for the difference to the plan's minimum, if there is one."""
    plan = entry.plan
    if plan is None or amounts >= plan.minimum:
        return []
    numbers = {name: Decimal(1) for name in ("quantity", "unit")}
    rest = {"tier": 0, "from_count": Decimal(0), "price": plan.minimum}
    amount = {"amount": plan.minimum - amounts}
    return [_row(entry, plan, Resource.MINIMUM) | numbers | rest | amount]


def _price_rows(entry: Assigned) -> Iterator[dict[str, object]]:
    plan = entry.plan
    assert plan is not None
    for resource, rate in plan.rates.items():
        for row in _rate_rows(rate):
            yield _row(entry, plan, resource) | row | _arithmetic(rate, row["price"], plan.decimals)


def _row(entry: Assigned, plan: PricePlan, resource: Resource) -> dict[str, object]:
    return {
        "tenant": entry.tenant,
        "plan": plan.name,
        "plan_version": str(plan.valid_from),
        "currency": plan.currency,
        "decimals": plan.decimals,
        "rounding": plan.rounding,
        "resource": resource,
        "unit_name": "",
    }


def _arithmetic(rate: Rate, price: Decimal, decimals: int) -> dict[str, object]:
    """The integers from which the amount is computed."""
    return {
        "scaled_price": price.scaleb(PRICE_DECIMALS),
        "divisor": Decimal(rate.unit * 10 ** (PRICE_DECIMALS - decimals)),
        "smallest": Decimal(1).scaleb(-decimals),
    }


def _rate_rows(rate: Rate) -> Iterator[dict[str, Any]]:
    """The tiers as ranges of counts; the free quota is a tier before them."""
    free = rate.free * rate.unit
    unit: dict[str, Any] = {"unit": Decimal(rate.unit), "unit_name": rate.unit_name}
    if free:
        yield unit | {
            "tier": _FREE, "from_count": Decimal(0), "up_to_count": Decimal(free),
            "price": Decimal(0),
        }  # fmt: skip
    for number, tier in enumerate(rate.tiers):
        end = None if tier.end is None else Decimal(free + tier.end * rate.unit)
        begin = Decimal(free + tier.begin * rate.unit)
        yield unit | {
            "tier": number, "from_count": begin, "up_to_count": end, "price": tier.price,
        }  # fmt: skip

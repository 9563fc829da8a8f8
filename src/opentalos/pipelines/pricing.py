"""Usage of a month into priced lines: DataFrame functions over exact decimals.

Nothing here is a float. A line's amount is count x price / unit, exact until it is rounded once,
by the plan's rule, to the smallest unit of the currency. Division is by whole numbers with a
remainder, since a decimal of Spark cannot hold every quotient. A value that does not fit its type
is an error of the query (ANSI mode), never a null.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

from opentalos.pipelines.price_plan import (
    AMOUNT_DECIMALS_MAX,
    COUNT_DIGITS,
    PRICE_DECIMALS,
    PRICE_DIGITS,
    PricePlan,
    Rate,
    Resource,
    Rounding,
)
from opentalos.pipelines.tenant_plans import Assigned

COUNT: Final = DecimalType(COUNT_DIGITS, 0)
AMOUNT: Final = DecimalType(COUNT_DIGITS + AMOUNT_DECIMALS_MAX, AMOUNT_DECIMALS_MAX)
_WIDEST: Final = DecimalType(38, 0)
_COUNT_ARROW: Final = pa.decimal128(COUNT_DIGITS, 0)
_PRICE_ARROW: Final = pa.decimal128(PRICE_DIGITS, PRICE_DECIMALS)
_AMOUNT_ARROW: Final = pa.decimal128(AMOUNT.precision, AMOUNT.scale)
_UNIT_ARROW: Final = pa.decimal128(16, 0)
_FREE: Final = -1  # the number of the tier before the first
LINE_COLUMNS: Final = (
    "tenant", "plan", "plan_version", "currency", "decimals", "resource", "tier",
    "from_count", "up_to_count", "quantity", "unit", "unit_name", "price", "amount",
)  # fmt: skip
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
        ("minimum", _AMOUNT_ARROW),
    ]
)
_RESERVED: Final = pa.schema([("tenant", pa.string()), ("quantity", _COUNT_ARROW)])


def partition_totals(usage: DataFrame) -> DataFrame:
    """One row per tenant, topic and partition, with what was taken in and from where to where."""
    return usage.groupBy("tenant", "topic", "partition").agg(
        F.max("name").alias("name"),
        F.sum(F.col("records").cast(COUNT)).cast(COUNT).alias("records"),
        F.sum(F.col("bytes").cast(COUNT)).cast(COUNT).alias("bytes"),
        F.min("first_offset").alias("first_offset"),
        F.max("next_offset").alias("next_offset"),
    )


def topic_totals(partitions: DataFrame) -> DataFrame:
    """One row per tenant and topic out of ``partition_totals``."""
    return partitions.groupBy("tenant", "topic").agg(
        F.max("name").alias("name"),
        F.count("*").cast("int").alias("partitions"),
        F.sum("records").cast(COUNT).alias("records"),
        F.sum("bytes").cast(COUNT).alias("bytes"),
    )


def gaps(partitions: DataFrame) -> DataFrame:
    """Partitions whose minutes do not chain: ``missing`` records are in none of them, or in two
    (a negative number)."""
    whole = partitions.groupBy("topic", "partition").agg(
        F.max("name").alias("name"),
        F.max("next_offset").alias("next_offset"),
        F.min("first_offset").alias("first_offset"),
        F.sum("records").alias("records"),
    )
    missing = (F.col("next_offset") - F.col("first_offset")).cast(COUNT) - F.col("records")
    return whole.select("topic", "name", "partition", missing.alias("missing")).where(
        "missing <> 0"
    )


def price_table(spark: SparkSession, assigned: Iterable[Assigned]) -> DataFrame:
    """A row per tenant, resource and tier: counts from ``from_count`` on have ``price``."""
    rows = [row for one in assigned if one.plan is not None for row in _price_rows(one)]
    return spark.createDataFrame(pa.Table.from_pylist(rows, _PRICES))


def reserved_table(spark: SparkSession, assigned: Iterable[Assigned]) -> DataFrame:
    """How many partitions are reserved for each tenant."""
    rows = [
        {"tenant": one.tenant, "quantity": Decimal(one.reserved_partitions)} for one in assigned
    ]
    return spark.createDataFrame(pa.Table.from_pylist(rows, _RESERVED))


def line_items(topics: DataFrame, reserved: DataFrame, prices: DataFrame) -> DataFrame:
    """The lines of all invoices, with LINE_COLUMNS; what nobody used makes no line.

    Args: topics: of ``topic_totals``; reserved: of ``reserved_table``; prices: of ``price_table``.
    """
    priced = _priced(_quantities(topics, reserved), prices)
    return priced.unionByName(_minimum_lines(priced, prices))


def _quantities(topics: DataFrame, reserved: DataFrame) -> DataFrame:
    tenants = topics.groupBy("tenant").agg(
        *(F.sum(name).cast(COUNT).alias(name) for name in (Resource.RECORDS, Resource.BYTES))
    )
    metered = tenants.unpivot(
        "tenant", [Resource.RECORDS, Resource.BYTES], "resource", "quantity"
    ).select("tenant", "resource", "quantity")
    booked = reserved.select("tenant", F.lit(Resource.PARTITIONS).alias("resource"), "quantity")
    return metered.unionByName(booked)


def _priced(quantities: DataFrame, prices: DataFrame) -> DataFrame:
    found = prices.join(quantities, ["tenant", "resource"])
    reached = F.least("quantity", "up_to_count")  # a null, for no end, is left out of account
    counted = found.withColumn("quantity", (reached - F.col("from_count")).cast(COUNT))
    used = counted.where("quantity > 0")
    return used.withColumn("amount", _amount()).select(*LINE_COLUMNS)


def _amount() -> Column:
    """quantity x price / unit, rounded once."""
    scaled = F.expr(f"CAST(price * {10**PRICE_DECIMALS}BD AS DECIMAL({PRICE_DIGITS},0))")
    product = (F.col("quantity") * scaled).cast(_WIDEST)
    steps = _by_decimals(lambda decimals: Decimal(10) ** (PRICE_DECIMALS - decimals))
    divisor = (F.col("unit") * steps.cast(DecimalType(11, 0))).cast(_WIDEST)
    rest = (product % divisor).cast(_WIDEST)
    whole = ((product - rest) / divisor).cast(COUNT)
    rounded = (whole + F.when(_goes_up(whole, rest, divisor), 1).otherwise(0)).cast(COUNT)
    smallest = _by_decimals(lambda decimals: Decimal(1).scaleb(-decimals))
    return (rounded * smallest.cast(DecimalType(5, AMOUNT_DECIMALS_MAX))).cast(AMOUNT)


def _goes_up(whole: Column, rest: Column, divisor: Column) -> Column:
    rule = F.col("rounding")
    double = rest + rest
    return (
        ((rule == Rounding.UP) & (rest > 0))
        | ((rule == Rounding.HALF_UP) & (double >= divisor))
        | ((rule == Rounding.HALF_EVEN) & (double > divisor))
        | ((rule == Rounding.HALF_EVEN) & (double == divisor) & (whole % 2 == 1))
    )


def _by_decimals(value: Any) -> Column:
    """A power of ten by the column ``decimals``, as an exact literal."""
    column = F.lit(None)
    for decimals in range(AMOUNT_DECIMALS_MAX + 1):
        literal = F.expr(f"{value(decimals):f}BD")
        column = F.when(F.col("decimals") == decimals, literal).otherwise(column)
    return column


def _minimum_lines(priced: DataFrame, prices: DataFrame) -> DataFrame:
    """What is missing to the minimum of the plan, where something is."""
    sums = priced.groupBy("tenant").agg(F.sum("amount").alias("sum"))
    rows = prices.where(F.col("resource") == Resource.MINIMUM).join(sums, "tenant", "left")
    short = F.col("minimum") - F.coalesce("sum", F.lit(Decimal(0)))
    filled = rows.withColumn("amount", short.cast(AMOUNT)).where("amount > 0")
    return filled.withColumn("quantity", F.lit(1).cast(COUNT)).select(*LINE_COLUMNS)


def _price_rows(one: Assigned) -> Iterator[dict[str, object]]:
    plan = one.plan
    assert plan is not None
    for resource, rate in plan.rates.items():
        yield from (_row(one, plan, resource) | row for row in _rate_rows(rate))
    end = {"tier": 0, "from_count": Decimal(0), "unit": Decimal(1), "price": plan.minimum}
    yield _row(one, plan, Resource.MINIMUM) | end


def _row(one: Assigned, plan: PricePlan, resource: Resource) -> dict[str, object]:
    return {
        "tenant": one.tenant,
        "plan": plan.name,
        "plan_version": str(plan.valid_from),
        "currency": plan.currency,
        "decimals": plan.decimals,
        "rounding": plan.rounding,
        "resource": resource,
        "unit_name": "",
        "minimum": plan.minimum,
    }


def _rate_rows(rate: Rate) -> Iterator[dict[str, object]]:
    """The tiers as ranges of counts; the free quota is one of its own before them."""
    free = rate.free * rate.unit
    unit = {"unit": Decimal(rate.unit), "unit_name": rate.unit_name}
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

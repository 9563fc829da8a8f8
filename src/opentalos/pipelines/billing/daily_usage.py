"""The usage of each tenant by day, for the charts of its invoice."""

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from opentalos.pipelines.billing.invoices.daily_chart import DayUse
from opentalos.pipelines.billing.plans.price_plan import COUNT_DIGITS
from opentalos.pipelines.lake.periods.month import Month
from opentalos.pipelines.lake.periods.whole_days import DAY_MS

_COUNT_ARROW: Final = pa.decimal128(COUNT_DIGITS, 0)
DAYS_SCHEMA: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("day", pa.int32()),  # since 1970-01-01, in UTC
        ("records", _COUNT_ARROW),
        ("bytes", _COUNT_ARROW),
    ]
)
_ORDER: Final = [("tenant", "ascending"), ("day", "ascending")]


def days_table(totals: DataFrame) -> pa.Table:
    """Of ``daily_totals``: records and bytes, exact, ordered by tenant and day."""
    return totals.toArrow().select(DAYS_SCHEMA.names).cast(DAYS_SCHEMA).sort_by(_ORDER)


def days_by_tenant(days: pa.Table, month: Month) -> Mapping[str, tuple[DayUse, ...]]:
    """A day of use for each day of the month, also for those without usage."""
    first, end = month.begin_ms // DAY_MS, month.end_ms // DAY_MS
    found: dict[str, dict[int, DayUse]] = {}
    for row in days.to_pylist():
        use = DayUse(records=int(row["records"]), bytes=int(row["bytes"]))
        found.setdefault(row["tenant"], {})[row["day"]] = use
    return {tenant: _month_of(uses, range(first, end)) for tenant, uses in found.items()}


def _month_of(uses: Mapping[int, DayUse], days: Iterable[int]) -> tuple[DayUse, ...]:
    unused = DayUse(records=0, bytes=0)
    return tuple(uses.get(day, unused) for day in days)

"""Rows of usage by day become a whole month of days for each tenant."""

from decimal import Decimal

import pyarrow as pa

from opentalos.pipelines.billing.daily_usage import DAYS_SCHEMA, days_by_tenant
from opentalos.pipelines.billing.invoices.daily_chart import DayUse
from opentalos.pipelines.lake.periods.month import Month

FEBRUARY = Month(2026, 2)
FIRST = 20_485  # 2026-02-01, in days since 1970-01-01


def test_each_day_of_the_month_has_its_usage_or_none() -> None:
    rows = [
        {"tenant": "CLshop", "day": FIRST, "records": Decimal(2), "bytes": Decimal(20)},
        {"tenant": "CLshop", "day": FIRST + 27, "records": Decimal(3), "bytes": Decimal(30)},
        {"tenant": "CLnew", "day": FIRST + 1, "records": Decimal(1), "bytes": Decimal(0)},
    ]
    found = days_by_tenant(pa.Table.from_pylist(rows, DAYS_SCHEMA), FEBRUARY)
    assert sorted(found) == ["CLnew", "CLshop"]
    assert {len(days) for days in found.values()} == {28}
    shop = found["CLshop"]
    assert (shop[0], shop[27]) == (DayUse(records=2, bytes=20), DayUse(records=3, bytes=30))
    assert set(shop[1:27]) == {DayUse(records=0, bytes=0)}
    assert found["CLnew"][1] == DayUse(records=1, bytes=0)


def test_without_usage_there_are_no_days() -> None:
    assert days_by_tenant(DAYS_SCHEMA.empty_table(), FEBRUARY) == {}

"""Usage of a month in the lake becomes invoices, the same bytes each time."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.unit.pipelines.billing.fake_server import FakeServer

from opentalos.model.errors import ConfigError
from opentalos.pipelines.billing.closing import Watermark
from opentalos.pipelines.billing.pipeline import BILLING, BilledWithProblems
from opentalos.pipelines.billing.reconcile import reconcile_with
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.periods.month import Month
from opentalos.pipelines.lake.tables import HOUR_MS, HourTable
from opentalos.pipelines.metering.usage_lake import MinuteUse
from opentalos.pipelines.metering.usage_table import LAYOUT, SCHEMA
from opentalos.pipelines.pipeline import PipelineSettings

MARCH = Month(2026, 3)
PLAN = """\
plan = "standard"
valid_from = "2026-01"
currency = "EUR"

[records]
unit = 1_000

[[records.tier]]
from = 0
price = 0.005

[bytes]
unit = "GB"

[[bytes.tier]]
from = 0
price = 0.1
"""
TENANTS = """\
[[tenant]]
id = "CLshop"
plan = "standard"
"""


class Bench:
    """A home with usage, and the billing of it."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._spark, self.home = spark, home
        self._table = HourTable(home, "usage", SCHEMA)
        (home / "plans").mkdir()
        (home / "plans" / "standard.toml").write_text(PLAN)
        (home / "tenants.toml").write_text(TENANTS)

    def usage(self, at_ms: int, *rows: tuple[str, int, int, int]) -> None:
        """Tenant, partition, first and next offset of one minute; a record has 1,000,000 bytes."""
        listed = [
            {
                "tenant": tenant,
                "topic": f"uuid-{tenant}",
                "name": "orders",
                "partition": partition,
                "minute": datetime.fromtimestamp(at_ms / 1000, UTC),
                "records": end - begin,
                "bytes": (end - begin) * 1_000_000,
                "first_offset": begin,
                "next_offset": end,
            }
            for tenant, partition, begin, end in rows
        ]
        hour = at_ms - at_ms % HOUR_MS
        self._table.replace(hour, pa.Table.from_pylist(listed, SCHEMA))

    def minutes(self, chain: list[MinuteUse]) -> None:
        """The minutes of the only partition of the topic "orders" of the tenant "t"."""
        for item in chain:
            row = {"tenant": "t", "topic": "u-orders", "name": "orders", "partition": 0,
                   "minute": datetime.fromtimestamp(item.minute_ms / 1000, UTC)}  # fmt: skip
            table = pa.Table.from_pylist([item._asdict() | row], SCHEMA)
            self._table.replace(item.minute_ms - item.minute_ms % HOUR_MS, table)

    def bill(self, **options: str) -> None:
        usual = {
            "month": str(MARCH),
            "plans": str(self.home / "plans"),
            "tenants": str(self.home / "tenants.toml"),
        }
        given = {name.replace("_", "-"): text for name, text in options.items()}
        settings = PipelineSettings(
            url="http://127.0.0.1:1", key="a:b", home=self.home, options=usual | given
        )
        BILLING.run(self._spark, settings)

    @property
    def current(self) -> Path:
        return self.home / "invoices" / str(MARCH) / "current"

    def totals(self) -> dict[str, dict[str, Any]]:
        rows = pq.read_table(self.current.resolve() / "totals.parquet").to_pylist()
        return {row["tenant"]: row for row in rows}


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path)


def test_a_month_is_what_was_stored_in_its_minutes_of_utc(bench: Bench) -> None:
    minute_ms = 60_000
    bench.usage(MARCH.begin_ms - minute_ms, ("CLshop", 0, 0, 7))
    bench.usage(MARCH.begin_ms, ("CLshop", 0, 7, 1_007))
    bench.usage(MARCH.end_ms - minute_ms, ("CLshop", 0, 1_007, 3_007))
    bench.usage(MARCH.end_ms, ("CLshop", 0, 3_007, 9_000))
    bench.bill()
    shop = bench.totals()["CLshop"]
    # 3,000 records at 0.005 a thousand are 0.015, 3 GB are 0.30: each is rounded on its own.
    assert (shop["records"], shop["amount"]) == (3_000, Decimal("0.32"))
    lines = pq.read_table(bench.current.resolve() / "lines.parquet").to_pylist()
    assert [(row["line"], row["resource"], row["amount"]) for row in lines] == [
        (1, "records", Decimal("0.02")),
        (2, "bytes", Decimal("0.30")),
    ]
    page = (bench.current / "pages" / "CLshop.html").read_text()
    assert "0.32 EUR" in page
    assert page.count("<rect") == 2 * 31
    for text in ("2026-03-01: 1,000 messages", "2026-03-31: 2,000 messages"):
        assert text in page
    days = pq.read_table(bench.current.resolve() / "days.parquet").to_pylist()
    assert [row["records"] for row in days] == [1_000, 2_000]
    assert sum(row["bytes"] for row in days) == shop["bytes"]


def test_the_same_usage_gives_the_same_version(bench: Bench) -> None:
    bench.usage(MARCH.begin_ms, ("CLshop", 0, 0, 10), ("CLshop", 1, 0, 20))
    bench.bill()
    first = bench.current.resolve()
    bench.usage(MARCH.begin_ms, ("CLshop", 1, 0, 20), ("CLshop", 0, 0, 10))
    bench.bill()
    assert bench.current.resolve() == first
    bench.usage(MARCH.begin_ms, ("CLshop", 1, 0, 20), ("CLshop", 0, 0, 11))
    bench.bill()
    assert bench.current.resolve() != first


def test_a_tenant_without_a_plan_is_named_and_all_others_are_billed(bench: Bench) -> None:
    bench.usage(MARCH.begin_ms, ("CLshop", 0, 0, 1_000), ("CLnew", 0, 0, 500))
    with pytest.raises(BilledWithProblems, match="tenant CLnew: no plan"):
        bench.bill()
    totals = bench.totals()
    assert totals["CLshop"]["amount"] == Decimal("0.11")
    assert (totals["CLnew"]["amount"], totals["CLnew"]["records"]) == (None, 500)
    assert totals["CLnew"]["problem"] == "no plan"
    assert (bench.current / "problems.txt").read_text() == "tenant CLnew: no plan\n"
    assert not (bench.current / "pages" / "CLnew.html").exists()
    bench.bill(on_problem="report")
    bench.bill(default_plan="standard")
    assert bench.totals()["CLnew"]["problem"] == ""


def test_minutes_that_are_missing_are_a_problem(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.usage(MARCH.begin_ms, ("CLshop", 0, 0, 10))
    bench.usage(MARCH.begin_ms + HOUR_MS, ("CLshop", 0, 13, 20))
    with pytest.raises(BilledWithProblems, match=r"partition 0: .* 3 records are missing"):
        bench.bill()
    says(monkeypatch, {0: 20})
    with pytest.raises(ConfigError, match="cannot be closed"):
        bench.bill(close="yes")


def test_a_gap_and_an_overlap_of_one_length_are_a_problem(bench: Bench) -> None:
    bench.usage(MARCH.begin_ms, ("CLshop", 0, 0, 10))
    bench.usage(MARCH.begin_ms + HOUR_MS, ("CLshop", 0, 8, 13))
    bench.usage(MARCH.begin_ms + 2 * HOUR_MS, ("CLshop", 0, 15, 20))
    with pytest.raises(BilledWithProblems, match="2 records are missing and 2 are doubled"):
        bench.bill()


def test_a_month_is_closed_once_all_partitions_are_metered_past_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    minute_ms = 60_000
    bench.usage(MARCH.begin_ms - minute_ms, ("CLshop", 0, 0, 5))
    bench.usage(MARCH.begin_ms, ("CLshop", 0, 7, 10), ("CLshop", 1, 0, 20))
    says(monkeypatch, {0: 10, 1: 25, 2: 3})
    with pytest.raises(ConfigError, match="2026-03 cannot be closed") as caught:
        bench.bill(close="yes")
    said = str(caught.value)
    assert "partition 0: its minutes begin at offset 7, those before the month end at 5" in said
    assert "partition 1: the table does not have offsets 20 to 24 yet" in said
    assert "partition 2: the table does not have offsets 0 to 2 yet" in said
    assert not bench.current.exists()

    bench.usage(MARCH.begin_ms, ("CLshop", 0, 5, 10), ("CLshop", 1, 0, 20))
    bench.usage(MARCH.end_ms, ("CLshop", 1, 20, 22), ("CLshop", 2, 0, 3))
    bench.bill(close="yes")
    assert bench.totals()["CLshop"]["records"] == 25


MINUTE_MS = 60_000
SPLIT_MS = MARCH.begin_ms + 15 * 86_400_000  # 16 March, 00:00 UTC
CHAIN = [
    MinuteUse(at_ms, end - begin, 10 * (end - begin), begin, end)
    for at_ms, begin, end in (
        (MARCH.begin_ms, 0, 4),
        (SPLIT_MS - MINUTE_MS, 4, 10),
        (SPLIT_MS, 10, 18),
        (MARCH.end_ms, 18, 20),
    )
]
OLD = """\
plan = "old"
valid_from = "2026-01"
currency = "EUR"
[records]
[[records.tier]]
from = 0
"""
NEW = OLD.replace('"old"', '"new"').replace("[records]", "minimum = 31.00\n[records]", 1)
CHANGE = """\
[[tenant]]
id = "t"
plan = "old"
time_zone = "Asia/Tokyo"

[[tenant]]
id = "t"
plan = "new"
valid_from = "2026-03-16"
time_zone = "Asia/Tokyo"
"""
CREDITS = """\
[[credit]]
id = "C-1"
tenant = "t"
date = "2026-03-20"
amount = 40.00
currency = "EUR"
reason = "outage"
"""


def test_a_month_with_a_plan_change_is_what_the_logs_have(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer({"orders": [CHAIN]})
    monkeypatch.setattr("opentalos.pipelines.billing.pipeline.RestClient", lambda _: server)
    (bench.home / "plans" / "old.toml").write_text(OLD + "price = 0.5\n")
    (bench.home / "plans" / "new.toml").write_text(NEW + "price = 0.25\n")
    (bench.home / "tenants.toml").write_text(CHANGE)
    (bench.home / "credits.toml").write_text(CREDITS)
    bench.minutes(CHAIN)
    credits = str(bench.home / "credits.toml")
    bench.bill(credits=credits)

    lines = pq.read_table(bench.current.resolve() / "lines.parquet").to_pylist()
    assert [
        (row["plan"], row["resource"], int(row["quantity"]), row["amount"]) for row in lines
    ] == [
        ("old", "records", 10, Decimal("5.00")),
        ("new", "records", 8, Decimal("2.00")),
        ("new", "minimum", 1, Decimal("14.00")),  # to 31.00 x 16 / 31
        (None, "credit", 1, Decimal("-21.00")),
    ]
    total = bench.totals()["t"]
    assert (total["charges"], total["amount"]) == (Decimal("21.00"), Decimal(0))
    usage = pipeline_table(bench.home, "", LAYOUT)
    found = reconcile_with(server, usage)  # type: ignore[arg-type]
    assert (found.difference, found.pending) == (0, 0)
    billed = sum(row["quantity"] for row in lines if row["resource"] == "records")
    assert billed == sum(minute.records for minute in CHAIN[:3])
    assert (
        "2026-03-01 09:00 to before 2026-04-01 09:00"
        in (bench.current / "pages" / "t.html").read_text()
    )

    with pytest.raises(ConfigError, match="open month 2026-03 may take; close 2026-03 first"):
        bench.bill(month="2026-04", credits=credits, close="yes")
    bench.bill(credits=credits, close="yes")
    closed = bench.current.resolve()
    bench.bill(month="2026-04", credits=credits, close="yes")
    april = pq.read_table(bench.home / "invoices/2026-04/current/lines.parquet").to_pylist()
    # The minimum of 31.00 less the 19.00 that March left of the credit.
    assert [row["amount"] for row in april] == [Decimal("0.50"), Decimal("30.50"), Decimal(-19)]
    bench.bill(credits=credits)
    assert bench.current.resolve() == closed


def says(monkeypatch: pytest.MonkeyPatch, offsets: dict[int, int]) -> None:
    """The server has metered so much of the partitions of the topic, and there is no more."""
    marks = {
        ("uuid-CLshop", partition): Watermark("orders", offset, 0, offset)
        for partition, offset in offsets.items()
    }
    monkeypatch.setattr("opentalos.pipelines.billing.pipeline.watermarks", lambda _: marks)


def test_a_closed_month_is_final_until_it_is_opened(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(monkeypatch, {0: 1_000})
    bench.usage(MARCH.begin_ms, ("CLshop", 0, 0, 1_000))
    bench.bill(close="yes")
    closed = bench.current.resolve()
    bench.bill()
    bench.usage(MARCH.begin_ms, ("CLshop", 0, 0, 2_000))
    with pytest.raises(ConfigError, match="2026-03 is closed"):
        bench.bill()
    assert bench.current.resolve() == closed
    bench.bill(reopen="yes")
    assert bench.totals()["CLshop"]["revision"] == 2
    assert "replaces revision 1" in (bench.current / "pages" / "CLshop.html").read_text()


def test_a_month_that_is_not_over_cannot_be_closed(bench: Bench) -> None:
    with pytest.raises(ConfigError, match="cannot be closed before 2999-02-01"):
        bench.bill(month="2999-01", close="yes")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"month": "March"}, "write YYYY-MM"),
        ({"close": "maybe"}, "close is 'maybe': choose yes or no"),
        ({"on_problem": "x"}, "on-problem is 'x': choose fail or report"),
        ({"plans": "nowhere"}, "nowhere: not a directory"),
        ({"default_plan": "gold"}, "unknown plan 'gold'"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    bench: Bench, options: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        bench.bill(**options)
    assert not (bench.home / "invoices").exists()

"""What a real server keeps and drops is a line of the invoice, to the minute of its reports."""

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.e2e.rest.client import rest
from tests.server_process import ServerProcess
from tests.spark.billing.test_bill_kills import PLAN
from tests.spark.billing.test_egress_bill import bill
from tests.spark.conftest import TalosServer
from tests.spark.pipeline_process import WAIT_S
from tests.spark.queries import started

from opentalos.pipelines.billing.pricing import month_minutes
from opentalos.pipelines.billing.reconcile import reconcile
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.periods.month import Month
from opentalos.pipelines.metering import kept_table, usage_table
from opentalos.pipelines.metering.pipeline import METERING
from opentalos.pipelines.pipeline import PipelineSettings

MESSAGES, SIZE = 20, 20_000  # random text, which compression only halves
STORAGE = '[storage]\nunit = "KB"\n\n[[storage.tier]]\nfrom = 0\nprice = 1000.0\n'
MINUTE_S = 60
REPORTED_S = 3.0  # storage_interval_s, and some time
DROPPED_S = 400.0  # a minute ends, is metered, and retention asks; on a busy machine
CONFIG = """\
[metering]
interval_s = 1.0
egress = false
storage_interval_s = 1.0
[log]
retention_interval_s = 1.0
segment_age_max_s = 5.0
idle_seal_s = 2.0
[topic]
retention_min_s = 1
"""


def put(process: ServerProcess, topic: str) -> None:
    messages = [{"text": random.randbytes(SIZE // 2).hex()} for _ in range(MESSAGES)]
    reply = rest(process, "POST", f"topics/{topic}/partitions/0/messages", {"messages": messages})
    assert reply.status == 200


def start_of(process: ServerProcess, topic: str) -> int:
    document = rest(process, "GET", f"topics/{topic}/usage?partition=0").document
    found: int = document["start_offset"]
    return found


def until(done: Callable[[], bool]) -> None:
    end_s = time.monotonic() + DROPPED_S
    while not done():
        assert time.monotonic() < end_s
        time.sleep(1.0)


def wait_whole_minute(since_s: float) -> None:
    """Until a minute is over that began after this time, and reports of the next one are there."""
    over_s = (since_s // MINUTE_S + 2) * MINUTE_S
    time.sleep(max(0.0, over_s + REPORTED_S - time.time()))


def byte_minutes(usage: list[dict[str, Any]], kept: list[dict[str, Any]], month: Month) -> int:
    """Row by row; without the product's arithmetic."""
    found = 0
    for row in usage:
        times = [
            report["minute"]
            for report in kept
            if report["topic"] == row["topic"] and report["start_offset"] <= row["first_offset"]
        ]
        begin = max(row["minute"].timestamp() + 60, month.begin.timestamp())
        end = min(max(times).timestamp(), month.end.timestamp()) if times else 0.0
        found += row["bytes"] * max(0, round(end - begin) // 60)
    return found


@pytest.mark.timeout(1_500)
def test_what_is_kept_is_a_line_of_the_invoice(spark: SparkSession, tmp_path: Path) -> None:
    process = ServerProcess(tmp_path / "server", config=CONFIG).start()
    try:
        for topic, retention_s in (("short", 20), ("long", 86_400), ("gone", 86_400)):
            new = {"name": topic, "partitions": 1, "retention_s": retention_s}
            assert rest(process, "POST", "topics", new).status < 300
            put(process, topic)
        put_s = time.time()
        until(lambda: start_of(process, "short") == MESSAGES)
        put(process, "short")
        process.kill()  # the next start reports what is kept
        process.start()
        assert rest(process, "DELETE", "topics/gone").status < 300
        until(lambda: start_of(process, "short") == 2 * MESSAGES)
        wait_whole_minute(put_s)
        process.stop()
        process.start()
        server = TalosServer(process)
        settings = PipelineSettings(
            url=server.url, key=server.key, home=tmp_path / "home", available_now=True
        )
        query = started(lambda: METERING.start(spark, settings))
        assert query.awaitTermination(int(WAIT_S))
        found = reconcile(settings.url, settings.key, settings.home)
        assert (found.difference, found.pending) == (0, 0)
        assert found.reports > 0

        kept = pipeline_table(settings.home, "", kept_table.LAYOUT).read().to_pylist()
        usage = pipeline_table(settings.home, "", usage_table.LAYOUT).read().to_pylist()
        assert {row["name"] for row in kept} == {"short", "long", "gone"}
        now = datetime.now(UTC)
        months = {Month(row["minute"].year, row["minute"].month) for row in kept}
        assert Month(now.year, now.month) in months

        plain = bill(spark, settings, PLAN)
        assert {row["resource"] for row in plain} == {"records"}
        priced = bill(spark, settings, PLAN + STORAGE)
        lines = [row for row in priced if row["resource"] == "storage"]
        wanted = {month: byte_minutes(usage, kept, month) // month_minutes(month)
                  for month in months}  # fmt: skip
        assert sum(row["quantity"] for row in lines) == sum(wanted.values()) > 0
        for row in lines:
            assert row["amount"] == Decimal(row["quantity"])  # a unit per byte and month
        assert [row for row in priced if row["resource"] == "records"] == plain
        pages = (settings.home / "invoices").glob("*/current/pages/*.html")
        assert any("Storage by topic" in page.read_text() for page in pages)
        assert bill(spark, settings, PLAN) == plain
    finally:
        process.kill()

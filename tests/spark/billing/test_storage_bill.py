"""What a real server keeps and drops is a line of the invoice, to the minute of its reports."""

import json
import random
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.e2e.rest.client import rest
from tests.server_process import ServerProcess
from tests.spark.billing.test_bill_kills import PLAN
from tests.spark.billing.test_egress_bill import bill
from tests.spark.conftest import TalosServer
from tests.spark.kills.copying import read_all
from tests.spark.queries import finished, started
from tests.waiting import elapse, eventually

from opentalos.model.names import USAGE_TOPIC
from opentalos.pipelines.billing.pricing import month_minutes
from opentalos.pipelines.billing.reconcile import reconcile
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.periods.month import Month
from opentalos.pipelines.metering import kept_table, usage_table
from opentalos.pipelines.metering.pipeline import METERING
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.sdk import SimpleConsumer
from opentalos.wire.metrics.kept import KEPT_KIND

MESSAGES, SIZE = 20, 20_000  # random text, which compression only halves
STORAGE = '[storage]\nunit = "KB"\n\n[[storage.tier]]\nfrom = 0\nprice = 1000.0\n'
MINUTE_S = 60
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


def wait_dropped(process: ServerProcess, topic: str, messages: int) -> None:
    """Until the log begins after so many: their minute is over and metered, and they are old."""
    dropped = f"the first {messages} messages of {topic} are dropped"
    eventually(dropped, lambda: start_of(process, topic) == messages, state=process.stderr)


def wait_whole_minute(server: TalosServer, topic: str, since_s: float) -> None:
    """Until a minute is over that began after this time, and a report of the next one is there."""
    over_s = (since_s // MINUTE_S + 2) * MINUTE_S
    elapse("the server measures a whole minute", max(0.0, over_s - time.time()))
    reported = f"what {topic} keeps is reported after its minute"
    eventually(reported, lambda: last_report_ms(server, topic) >= over_s * 1000)


def last_report_ms(server: TalosServer, topic: str) -> int:
    """Of which minute the last report is that says what the topic keeps; 0: of none."""
    with SimpleConsumer(server.config, USAGE_TOPIC) as consumer:
        partitions = list(consumer.offsets())
    found = 0
    for partition in partitions:
        for event in map(json.loads, read_all(server.config, USAGE_TOPIC, partition)):
            if event.get("kind") == KEPT_KIND and event["name"] == topic:
                found = max(found, event["minute_ms"])
    return found


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


def test_what_is_kept_is_a_line_of_the_invoice(spark: SparkSession, tmp_path: Path) -> None:
    process = ServerProcess(tmp_path / "server", config=CONFIG).start()
    try:
        for topic, retention_s in (("short", 20), ("long", 86_400), ("gone", 86_400)):
            new = {"name": topic, "partitions": 1, "retention_s": retention_s}
            assert rest(process, "POST", "topics", new).status < 300
            put(process, topic)
        put_s = time.time()
        wait_dropped(process, "short", MESSAGES)
        put(process, "short")
        process.kill()  # the next start reports what is kept
        process.start()
        assert rest(process, "DELETE", "topics/gone").status < 300
        wait_dropped(process, "short", 2 * MESSAGES)
        server = TalosServer(process)
        wait_whole_minute(server, "long", put_s)
        process.stop()
        process.start()
        settings = PipelineSettings(
            url=server.url, key=server.key, home=tmp_path / "home", available_now=True
        )
        finished(started(lambda: METERING.start(spark, settings)))
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

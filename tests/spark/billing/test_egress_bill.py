"""What a real server returned to consumers is a line of the invoice, once, if the plan has one."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from tests.e2e.rest.client import rest
from tests.server_process import ServerProcess
from tests.spark.billing.test_bill_kills import PLAN
from tests.spark.conftest import TalosServer
from tests.spark.queries import finished, started

from opentalos.pipelines.billing.pipeline import BILLING
from opentalos.pipelines.billing.reconcile import reconcile
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.metering.egress_table import LAYOUT
from opentalos.pipelines.metering.pipeline import METERING
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.service_events.side_output import side_folder

MESSAGES, SIZE, READS = 20, 100, 3
EGRESS = "[egress]\n\n[[egress.tier]]\nfrom = 0\nprice = 0.0001\n"


def read(process: ServerProcess) -> None:
    path = f"topics/read/partitions/0/messages?offset=0&messages_max={MESSAGES}"
    reply = rest(process, "GET", path)
    assert reply.status == 200
    assert len(reply.document["messages"]) == MESSAGES


def bill(spark: SparkSession, settings: PipelineSettings, plan: str) -> list[dict[str, Any]]:
    """The lines of this month and the last; the test may run over midnight."""
    plans = settings.home / "plans"
    plans.mkdir(exist_ok=True)
    (plans / "standard.toml").write_text(plan)
    for month in ("this", "last"):
        options = {"plans": str(plans), "default-plan": "standard", "month": month}
        BILLING.run(spark, replace(settings, options=options))
    found = sorted((settings.home / "invoices").glob("*/current/lines.parquet"))
    return [row for path in found for row in pq.ParquetFile(path).read().to_pylist()]


def test_what_consumers_read_is_a_line_of_the_invoice(spark: SparkSession, tmp_path: Path) -> None:
    process = ServerProcess(tmp_path / "server").start()
    try:
        assert rest(process, "POST", "topics", {"name": "read", "partitions": 1}).status < 300
        messages = [{"text": "x" * SIZE}] * MESSAGES
        put = rest(process, "POST", "topics/read/partitions/0/messages", {"messages": messages})
        assert put.status == 200
        for _ in range(READS):
            read(process)
        process.stop()  # reports the open minute
        process.start()
        read(process)  # of another source
        process.stop()
        process.start()
        server = TalosServer(process)
        settings = PipelineSettings(
            url=server.url, key=server.key, home=tmp_path / "home", available_now=True
        )
        finished(started(lambda: METERING.start(spark, settings)))
        found = reconcile(settings.url, settings.key, settings.home)
        assert (found.difference, found.pending) == (0, 0)
        assert not list(side_folder(settings.home, "metering").rglob("*.parquet"))

        rows = pipeline_table(settings.home, "", LAYOUT).read().to_pylist()
        count = (READS + 1) * MESSAGES * SIZE
        assert sum(row["bytes"] for row in rows) == count
        assert sum(row["messages"] for row in rows) == (READS + 1) * MESSAGES
        assert len({row["source"] for row in rows}) == 2

        plain = bill(spark, settings, PLAN)
        assert {row["resource"] for row in plain} == {"records"}
        assert not list((settings.home / "invoices").glob("*/current/reads.parquet"))
        priced = bill(spark, settings, PLAN + EGRESS)
        egress = [row for row in priced if row["resource"] == "egress"]
        assert sum(row["quantity"] for row in egress) == count
        assert sum(row["amount"] for row in egress) == Decimal("0.0001") * count
        assert [row for row in priced if row["resource"] == "records"] == plain
        pages = (settings.home / "invoices").glob("*/current/pages/*.html")
        assert any("Bytes read, as measured" in page.read_text() for page in pages)
        assert bill(spark, settings, PLAN) == plain
    finally:
        process.kill()

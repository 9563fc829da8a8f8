"""Usage and measurements in tables of Delta on a real HDFS: written, reconciled, billed."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from tests.conftest import RunningBackends
from tests.server_process import ServerProcess
from tests.spark.billing.test_bill_kills import PLAN
from tests.spark.conftest import TalosServer
from tests.spark.queries import finished, started
from tests.waiting import eventually

from opentalos.cli.main import talos
from opentalos.pipelines.billing.pipeline import BILLING
from opentalos.pipelines.billing.reconcile import Reconciliation, reconcile
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.metering import pipeline as metering
from opentalos.pipelines.metering.pipeline import METERING
from opentalos.pipelines.metering.usage_table import LAYOUT
from opentalos.pipelines.monitoring import pipeline as monitoring
from opentalos.pipelines.monitoring import rollups
from opentalos.pipelines.monitoring.pipeline import MONITORING
from opentalos.pipelines.pipeline import PipelineSettings, StreamPipeline
from opentalos.sdk import SimpleProducer, TalosAdmin

pytestmark = pytest.mark.backend
TOPIC, RECORDS = "metered-on-hdfs", 40


def test_usage_on_hdfs_is_reconciled_exported_and_billed(
    spark: SparkSession, backends: RunningBackends, tmp_path: Path
) -> None:
    config = "[metering]\ninterval_s = 1.0\n[measuring]\nstep_s = 1.0\n"
    process = ServerProcess(tmp_path / "server", config=config).start()
    try:
        server = TalosServer(process)
        settings = PipelineSettings(
            url=server.url,
            key=server.key,
            home=tmp_path / "home",
            lake=f"delta+{backends.hdfs_url}/lakes/{tmp_path.name}",
            available_now=True,
        )
        fill(server)
        for topic in (metering.TOPIC, monitoring.TOPIC):
            server.wait_for_topic(topic)
        assert metered(spark, settings).difference == 0
        fill(server)
        found = metered(spark, settings)
        assert found.difference == 0
        assert sum(item.records for item in found.partitions) == 2 * RECORDS
        check_results(spark, settings)
        run(spark, settings, MONITORING)
        level_0 = pipeline_table(settings.home, settings.lake, rollups.LAYOUT).summary()
        assert level_0.rows
    finally:
        process.kill()


def fill(server: TalosServer) -> None:
    with TalosAdmin(server.config) as admin:
        if TOPIC not in {topic.name for topic in admin.topics.list()}:
            admin.topics.create(TOPIC, partitions=1)
    with SimpleProducer(server.config, TOPIC, 0) as producer:
        producer.put([b"x"] * RECORDS)


def run(spark: SparkSession, settings: PipelineSettings, pipeline: StreamPipeline) -> None:
    finished(started(lambda: pipeline.start(spark, settings)))


def metered(spark: SparkSession, settings: PipelineSettings) -> Reconciliation:
    """Meter until nothing is pending; usage of a minute is published some time later."""

    def whole() -> Reconciliation | None:
        run(spark, settings, METERING)
        found = reconcile(settings.url, settings.key, settings.home, lake=settings.lake)
        return None if found.pending else found

    found = eventually("usage has all records", whole)
    assert found is not None
    return found


def check_results(spark: SparkSession, settings: PipelineSettings) -> None:
    """Export, bill and list what is in the lake."""
    lake = ("--lake", settings.lake, "--home", str(settings.home))
    exported = CliRunner().invoke(talos, ["bill", "export", "--format", "json", *lake])
    lines = [json.loads(line) for line in exported.stdout.splitlines()]
    assert sum(line["records"] for line in lines) == 2 * RECORDS
    listed = CliRunner().invoke(talos, ["lake", "list", "--format", "json", *lake])
    (table,) = [json.loads(line) for line in listed.stdout.splitlines()]
    assert table["table"] == f"{settings.lake}/usage"
    assert table["rows"] == len(lines)

    plans = settings.home / "plans"
    plans.mkdir()
    (plans / "standard.toml").write_text(PLAN)
    for month in ("this", "last"):  # the test may run over midnight
        options = {"plans": str(plans), "default-plan": "standard", "month": month}
        BILLING.run(spark, replace(settings, options=options))
    invoices = (settings.home / "invoices").glob("*/current/totals.parquet")
    total = sum(sum(pq.ParquetFile(path).read()["amount"].to_pylist()) for path in invoices)
    assert total == Decimal("0.0001") * 2 * RECORDS
    assert pipeline_table(settings.home, settings.lake, LAYOUT).compact() >= 0

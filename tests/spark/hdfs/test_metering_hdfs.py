"""Usage and measurements in tables of Delta on a real HDFS: written, reconciled, billed."""

import json
import time
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from tests.conftest import RunningBackends
from tests.server_process import ServerProcess
from tests.spark.billing.test_bill_kills import PLAN
from tests.spark.conftest import TalosServer
from tests.spark.pipeline_process import WAIT_S, until
from tests.spark.queries import started

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
from opentalos.sdk.errors import TopicNotExist

pytestmark = [pytest.mark.backend, pytest.mark.timeout(900)]
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
            until(partial(is_there, server, topic), lambda: "no service topics")
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


def is_there(server: TalosServer, topic: str) -> bool:
    """A new server creates its own topics when it has become ready."""
    with TalosAdmin(server.config) as admin:
        try:
            return bool(admin.offsets(topic))
        except TopicNotExist:
            return False


def run(spark: SparkSession, settings: PipelineSettings, pipeline: StreamPipeline) -> None:
    assert started(lambda: pipeline.start(spark, settings)).awaitTermination(int(WAIT_S))


def metered(spark: SparkSession, settings: PipelineSettings) -> Reconciliation:
    """Meter until nothing is pending; usage of a minute is published some time later."""
    deadline = time.monotonic() + WAIT_S
    while True:
        run(spark, settings, METERING)
        found = reconcile(settings.url, settings.key, settings.home, lake=settings.lake)
        if not found.pending:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.5)


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

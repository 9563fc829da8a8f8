"""Usage in the lake decides requests for partitions: pipeline, REST, SDK, all of it real."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.server_process import ROOT_KEY, ServerProcess
from tests.spark.quota.usage import Use, write_hour

from opentalos.model.errors import ConfigError, QuotaAutoApproveFailed
from opentalos.pipelines.lake.periods.whole_days import DAY_MS
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.quota.pipeline import QUOTA_PROJECTION
from opentalos.pipelines.runtime.connection import client_config
from opentalos.sdk import ClientConfig, TalosAdmin
from opentalos.sdk.core.values import PartitionQuota
from opentalos.sdk.rest_client import RestClient

MB = 1_000_000
CONFIG = """[quota]
organisation_partitions = 2
[quota_approval]
capacity_partitions = 200
capacity_bytes_per_s = 400_000_000
"""
TODAY_MS = int(time.time() * 1000) // DAY_MS * DAY_MS


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[PipelineSettings]:
    server = ServerProcess(tmp_path / "server", CONFIG).start()
    key = f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}"
    yield PipelineSettings(url=server.url, key=key, home=tmp_path / "home")
    server.stop()


def fill(home: Path, today_ms: int = TODAY_MS) -> None:
    """Thirty days: CLsteady with 30 MB/s at its busiest minute, over two partitions; CLnew of the
    latest five days; and what today has had so far, which is no whole day."""
    for day in range(1, 31):
        uses = [Use("CLsteady", "u1", partition, 15 * MB * 60, 7) for partition in (0, 1)]
        uses.append(Use("CLsteady", "u1", 0, 20 * MB * 60, 8))
        if day <= 5:
            uses.append(Use("CLnew", "u2", 0, 60 * MB))
        write_hour(home, today_ms - day * DAY_MS, uses)
    write_hour(home, today_ms, [Use("CLsteady", "u1", 0, 900 * MB * 60)])


def member(call: RestClient, settings: PipelineSettings, organisation: str) -> ClientConfig:
    name = f"of-{organisation}"
    call("POST", "principals", {"id": name, "organisation": organisation})
    key = call("POST", f"principals/{name}/keys")
    return ClientConfig(endpoints=(settings.url,), key_id=key["key_id"], secret=key["secret"])


def test_usage_in_the_lake_decides_requests(
    spark: SparkSession, settings: PipelineSettings
) -> None:
    call = RestClient(client_config(settings, 10.0))
    fill(settings.home)
    for _ in range(2):  # a run that is repeated changes nothing
        QUOTA_PROJECTION.run(spark, settings)
    found = call("GET", "quota-projections/CLsteady")
    assert (found["days"], found["level"], found["peak"]) == (30, 30 * MB, 30 * MB)
    assert found["trend_per_day"] == found["spread"] == 0
    assert found["made_ms"] == TODAY_MS
    with TalosAdmin(member(call, settings, "CLsteady")) as admin:
        wanted = PartitionQuota(organisation="CLsteady", total=64)
        with pytest.raises(QuotaAutoApproveFailed) as rejected:
            admin.quotas.apply(wanted, automatic=True)
        assert str(rejected.value).startswith(
            "rejected: your traffic peaked at 30.0 MB/s in the last 28 days and is expected to "
            "reach 30.0 MB/s within 30 days; that needs 9 partitions at 5.0 MB/s each with 50 % "
            "reserve; you requested 64"
        )
        admin.quotas.apply(PartitionQuota(organisation="CLsteady", total=13), automatic=True)
        [granted] = admin.quotas.list()
        assert granted.total == 13
    with TalosAdmin(member(call, settings, "CLnew")) as admin:
        with pytest.raises(
            QuotaAutoApproveFailed, match="pending: your traffic is known for 5 days"
        ):
            admin.quotas.apply(PartitionQuota(organisation="CLnew", total=9), automatic=True)
        [waiting] = admin.quotas.pending()
        assert waiting.total == 9
    [request] = call("GET", "quota-requests")["requests"]
    assert "requires manual approval" in request["note"]


def test_a_projection_expires_when_metering_stops(
    spark: SparkSession, settings: PipelineSettings
) -> None:
    call = RestClient(client_config(settings, 10.0))
    fill(settings.home, TODAY_MS - 5 * DAY_MS)
    QUOTA_PROJECTION.run(spark, settings)
    wanted = {"organisation": "CLsteady", "total": 9, "auto": True}
    decision = call("POST", "quota-requests", wanted)["decision"]
    assert decision["outcome"] == "human"
    assert "days old; the limit is 3 days" in decision["reason"]


def test_without_a_whole_day_nothing_is_projected(
    spark: SparkSession, settings: PipelineSettings
) -> None:
    call = RestClient(client_config(settings, 10.0))
    QUOTA_PROJECTION.run(spark, settings)
    write_hour(settings.home, TODAY_MS, [Use("CLsteady", "u1", 0, 5)])
    QUOTA_PROJECTION.run(spark, settings)
    assert call("GET", "quota-projections")["projections"] == []
    wrong = PipelineSettings(
        url=settings.url, key=settings.key, home=settings.home, options={"history-days": "0"}
    )
    with pytest.raises(ConfigError, match="history-days is '0': give a number"):
        QUOTA_PROJECTION.run(spark, wrong)

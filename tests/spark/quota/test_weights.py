"""Usage in the lake becomes weights of a cluster's servers."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.e2e.memory_cluster import memory_cluster, settled
from tests.server_process import ROOT_KEY
from tests.spark.conftest import TalosServer
from tests.spark.quota.usage import Use, write_hour
from tests.waiting import eventually_async, limit_s

from opentalos.model.errors import ConfigError
from opentalos.model.message import PartitionKey
from opentalos.pipelines.lake.periods.whole_days import DAY_MS
from opentalos.pipelines.lake.tables import HOUR_MS, HourTable
from opentalos.pipelines.metering.usage_table import SCHEMA, TABLE
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.runtime.connection import client_config
from opentalos.pipelines.traffic.pipeline import (
    TRAFFIC_WEIGHTS,
    partition_days,
    traffic_by_day,
)
from opentalos.sdk.rest_client import RestClient

DAY = 20_000
PARTITIONS = 60


def shown(settings: PipelineSettings) -> str:
    return (settings.home / "weights" / "latest.txt").read_text()


def test_usage_is_added_up_by_partition_and_day(spark: SparkSession, tmp_path: Path) -> None:
    day_ms = DAY * DAY_MS
    write_hour(tmp_path, day_ms, [Use("a", "u", 0, 5), Use("a", "u", 0, 6, 3), Use("b", "v", 7, 1)])
    write_hour(tmp_path, day_ms + 23 * HOUR_MS, [Use("a", "u", 0, 100)])
    write_hour(
        tmp_path, day_ms + 2 * DAY_MS, [Use("a", "u", 1, 1 << 62), Use("a", "u", 1, 1 << 62)]
    )
    write_hour(tmp_path, day_ms + 3 * DAY_MS, [Use("a", "u", 0, 9)])
    usage = HourTable(tmp_path, TABLE, SCHEMA).read(spark)
    rows = partition_days(usage, DAY + 3).toArrow()
    assert traffic_by_day(rows) == [
        {PartitionKey("u", 0): 111, PartitionKey("v", 7): 1},
        {},
        {PartitionKey("u", 1): (1 << 63) - 1},
    ]
    assert traffic_by_day(rows.slice(0, 0)) == []
    assert isinstance(rows, pa.Table)


def test_a_single_server_has_no_weights_to_set(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    settings = PipelineSettings(url=server.url, key=server.key, home=tmp_path)
    TRAFFIC_WEIGHTS.run(spark, settings)
    assert shown(settings) == "the server is not in a cluster; no weight was changed\n"


@pytest.mark.parametrize(
    "wrong", [{"days": "0"}, {"days": "32"}, {"budget": "x"}, {"budget": "101"}, {"dry-run": "yes"}]
)
def test_options_that_cannot_be_used_are_refused(tmp_path: Path, wrong: dict[str, str]) -> None:
    settings = PipelineSettings(url="http://127.0.0.1:1", key="a:b", home=tmp_path, options=wrong)
    spark: Any = None
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} is '.*': "):
        TRAFFIC_WEIGHTS.run(spark, settings)


async def test_weights_follow_the_traffic_of_past_days(spark: SparkSession, tmp_path: Path) -> None:
    async with memory_cluster(3) as servers:
        key = f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}"
        settings = PipelineSettings(
            url=f"http://127.0.0.1:{servers[0].port}", key=key, home=tmp_path,
            options={"budget": "20", "dry-run": "true"},
        )  # fmt: skip
        call = RestClient(client_config(settings, limit_s()))
        made = await asyncio.to_thread(
            call, "POST", "topics", {"name": "t", "partitions": PARTITIONS}
        )
        uuid = made["resource"].rpartition("#")[2]
        await settled(servers, uuid, PARTITIONS)
        for day in (1, 2):
            uses = [
                Use("root", uuid, number, 10**9 // (number + 1)) for number in range(PARTITIONS)
            ]
            write_hour(tmp_path, (DAY - day) * DAY_MS, uses)
        await asyncio.to_thread(TRAFFIC_WEIGHTS.run, spark, settings)
        assert "no whole day" not in shown(settings)
        write_hour(tmp_path, DAY * DAY_MS, [Use("root", uuid, 0, 1)])
        await asyncio.to_thread(TRAFFIC_WEIGHTS.run, spark, settings)
        assert "expected from 2 days" in shown(settings)
        assert "dry run: no weight was changed" in shown(settings)

        async def weights() -> set[int]:
            shown = (await asyncio.to_thread(call, "GET", "cluster"))["servers"]
            return {item["virtual_nodes"] for item in shown}

        assert await weights() == {128}
        await asyncio.to_thread(
            TRAFFIC_WEIGHTS.run, spark, replace(settings, options={"budget": "20"})
        )
        assert "variance across servers" in shown(settings)
        assert "to move" in shown(settings)

        async def changed() -> bool:
            return await weights() != {128}

        assert await eventually_async("the cluster has other weights", changed)

"""A structured table on real HBase: its shards are regions, and rows lie in all of them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster_processes import ClusterProcesses
from tests.conftest import RunningBackends
from tests.table_load import SHARDS, TableLoad, table_load

from opentalos.adapters.hbase import HbaseRowStore, open_hbase_row_store
from opentalos.model.limits import HbaseLimits, JvmLimits

pytestmark = pytest.mark.backend
ROWS_MAX = 1_000
PAUSE_S = 0.02


@pytest.fixture
async def cluster(backends: RunningBackends, tmp_path: Path) -> AsyncIterator[ClusterProcesses]:
    made = ClusterProcesses(tmp_path / "cluster", backends, ("s1",))
    try:
        await asyncio.to_thread(made.start)
        await asyncio.to_thread(made.wait_settled)
        yield made
    finally:
        made.close()


@pytest.fixture
async def store(
    backends: RunningBackends, cluster: ClusterProcesses, jvm: JvmLimits
) -> AsyncIterator[HbaseRowStore]:
    url = f"{backends.hbase_url}/{cluster.name}"
    opened = await open_hbase_row_store(url, jvm, HbaseLimits())
    yield opened
    await opened.close()


def loaded(cluster: ClusterProcesses, folder: Path) -> TableLoad:
    """Mutations, a scan across all regions, one of an index, both streams read, all judged."""
    server = cluster.servers["s1"]
    with table_load([server], folder, "a table on HBase", PAUSE_S) as load:
        load.wait_progress()
    return load


async def test_shards_are_regions_and_each_has_rows(
    cluster: ClusterProcesses, store: HbaseRowStore, tmp_path: Path
) -> None:
    load = await asyncio.to_thread(loaded, cluster, tmp_path / "load")
    table = f"sds.{load.uuid}"
    await store.open_table(table)
    client: Any = store._client

    def region_starts() -> list[bytes]:
        with client._connection.getRegionLocator(client._name(table)) as locator:
            return [bytes(start) for start in locator.getStartKeys()]

    starts = await asyncio.to_thread(region_starts)
    assert len(starts) == SHARDS
    for start, stop in zip(starts, [*starts[1:], b""], strict=True):
        assert await store.scan(table, start, stop, limit=ROWS_MAX)

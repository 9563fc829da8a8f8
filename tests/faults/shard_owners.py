"""Which server of a cluster has a shard of a table now, as the cluster's own records say."""

import asyncio
import json

from tests.cluster_processes import ClusterProcesses

from opentalos.adapters.zookeeper import open_zookeeper_meta_store
from opentalos.broker.tables.shard.record import shard_path
from opentalos.model.limits import ZookeeperLimits

WAIT_S = 120.0
PAUSE_S = 0.2


def shard_owner(cluster: ClusterProcesses, table_uuid: str, number: int) -> str:
    """Its name; while the shard moves nobody has it, and this waits. TimeoutError after WAIT_S."""
    return asyncio.run(_owner(cluster, shard_path(table_uuid, number)))


async def _owner(cluster: ClusterProcesses, path: str) -> str:
    url = f"zookeeper://{cluster.backends.zookeeper_hosts}/{cluster.name}"
    store = await open_zookeeper_meta_store(url, ZookeeperLimits())
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                found = await store.get(path)
                owner = "" if found is None else json.loads(found.value)["owner"]
                if owner in cluster.running:
                    return str(owner)
                await asyncio.sleep(PAUSE_S)
    finally:
        await store.close()

"""Which server of a cluster has a shard of a table now, as the cluster's own records say."""

import asyncio
import json

from tests.cluster_processes import ClusterProcesses
from tests.waiting import eventually_async

from opentalos.adapters.zookeeper import open_zookeeper_meta_store
from opentalos.broker.tables.shard.record import shard_path
from opentalos.model.limits import ZookeeperLimits


def shard_owner(cluster: ClusterProcesses, table_uuid: str, number: int) -> str:
    """Its name; while the shard moves nobody has it, and this waits."""
    return asyncio.run(_owner(cluster, shard_path(table_uuid, number)))


async def _owner(cluster: ClusterProcesses, path: str) -> str:
    url = f"zookeeper://{cluster.backends.zookeeper_hosts}/{cluster.name}"
    store = await open_zookeeper_meta_store(url, ZookeeperLimits())

    async def owner() -> str:
        found = await store.get(path)
        named = "" if found is None else str(json.loads(found.value)["owner"])
        return named if named in cluster.running else ""

    try:
        return await eventually_async(f"a server that runs has {path}", owner)
    finally:
        await store.close()

"""This server's membership in a cluster: its name, the shared key, the connections to peers."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from opentalos.adapters.peer_http import HttpPeers, open_http_peers
from opentalos.adapters.system_clock import SystemClock
from opentalos.server.config import Config
from opentalos.server.data_directory import DataDirectory, read_server_key
from opentalos.server.identity import join_cluster
from opentalos.server.measuring.descriptor_plan import descriptor_plan
from opentalos.server.stores import Stores

_INCARNATION_BYTES = 8
_CLUSTER_ID_BYTES = 6


@dataclass(frozen=True, slots=True)
class Member:
    """This server in its cluster."""

    name: str  # stable over restarts
    incarnation: str  # new at each start
    cluster: str  # id of the cluster
    key: bytes  # shared by all its servers
    peers: HttpPeers


async def become_member(
    config: Config,
    directory: DataDirectory,
    stores: Stores,
    tls: Callable[[], ssl.SSLContext],
) -> Member:
    """Check that stores and key belong to one cluster. Raises: ConfigError."""
    clock = SystemClock()

    def key_of(new_cluster: bool) -> bytes:
        if config.cluster.key_file:
            return read_server_key(Path(config.cluster.key_file))
        # Only the first server creates the key; a new one here would differ from the cluster's.
        return directory.server_key() if new_cluster else read_server_key(directory.key_path)

    fresh_id = clock.token(_CLUSTER_ID_BYTES).hex()
    cluster = await join_cluster(stores, config.storage, key_of, fresh_id)
    name = config.cluster.name or directory.server
    connections = descriptor_plan(config).peer_connections
    limits = replace(config.cluster, peer_connections_max=connections)
    return Member(
        name=name,
        incarnation=clock.token(_INCARNATION_BYTES).hex(),
        cluster=cluster.id,
        key=cluster.key,
        peers=open_http_peers(limits, cluster.key, name, tls),
    )

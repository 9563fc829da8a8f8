"""What makes a server one of a cluster: its name, the shared key, the way to the others."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opentalos.adapters.peer_http import HttpPeers, open_http_peers
from opentalos.adapters.system_clock import SystemClock
from opentalos.server.config import Config
from opentalos.server.data_directory import DataDirectory, read_server_key
from opentalos.server.identity import join_cluster
from opentalos.server.stores import Stores

_INCARNATION_BYTES = 8
_CLUSTER_ID_BYTES = 6


@dataclass(frozen=True, slots=True)
class Member:
    """This server in its cluster."""

    name: str  # the same after a restart
    incarnation: str  # another one after each start
    cluster: str  # id of the cluster
    key: bytes  # that all its servers have
    peers: HttpPeers


async def become_member(
    config: Config,
    directory: DataDirectory,
    stores: Stores,
    tls: Callable[[], ssl.SSLContext],
) -> Member:
    """Check that stores and key are of one cluster. Raises: ConfigError."""
    clock = SystemClock()

    def key_of(new_cluster: bool) -> bytes:
        if config.cluster.key_file:
            return read_server_key(Path(config.cluster.key_file))
        # A key made here would not be the one that the cluster has.
        return directory.server_key() if new_cluster else read_server_key(directory.key_path)

    fresh_id = clock.token(_CLUSTER_ID_BYTES).hex()
    cluster = await join_cluster(stores, config.storage, key_of, fresh_id)
    name = config.cluster.name or directory.server
    return Member(
        name=name,
        incarnation=clock.token(_INCARNATION_BYTES).hex(),
        cluster=cluster.id,
        key=cluster.key,
        peers=open_http_peers(config.cluster, cluster.key, name, tls),
    )

"""A server that is cut off from the others, but not from its clients."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cluster_load import PARTITIONS, Traffic, traffic
from tests.cluster_processes import SESSION_S, ClusterProcesses
from tests.conftest import RunningBackends
from tests.faults.namespace import Bridge, Namespace, namespace
from tests.server_process import ServerProcess
from tests.waiting import elapse

from opentalos.backends.ports import free_ports

pytestmark = pytest.mark.backend

VICTIM = "s1"
CUT_S = 8.0
CUTS_FULL = 10


@dataclass
class Partitioned:
    """A cluster whose first server has a network of its own."""

    cluster: ClusterProcesses
    peers: list[Bridge]
    zookeeper: list[Bridge]
    client_port: int  # leads to the victim, is never cut


@pytest.fixture(scope="module")
def partitioned(
    backends: RunningBackends, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Partitioned]:
    with namespace() as inside:
        launchers = {VICTIM: inside.launcher}
        cluster = ClusterProcesses(tmp_path_factory.mktemp("cut"), backends, launchers=launchers)
        made = lead(cluster, backends, inside)
        try:
            cluster.start()
            cluster.wait_settled()
            yield made
        finally:
            cluster.close()


def lead(cluster: ClusterProcesses, backends: RunningBackends, inside: Namespace) -> Partitioned:
    """Bridges for everything that the victim and the others say to each other."""
    fleet = backends.fleet
    for port in (*fleet.hdfs.ports.values(), *fleet.hbase.ports.values()):
        inside.lead_out(port)
    own = cluster.servers[VICTIM].port
    others = [item.port for name, item in cluster.servers.items() if name != VICTIM]
    peers = [inside.lead_in(own), *(inside.lead_out(port) for port in others)]
    zookeeper = [inside.lead_out(port) for port in fleet.zookeeper.ports.values()]
    client_port = free_ports(1)[0]
    inside.lead_in(client_port, own)
    return Partitioned(cluster, peers, zookeeper, client_port)


def load_the_victim(load: Traffic, partitioned: Partitioned, folder: Path) -> None:
    """Writers that reach the victim whatever is cut."""
    entrance = ServerProcess(folder, port=partitioned.client_port)
    for partition in range(PARTITIONS):
        load.add_pinned(entrance, f"entrance-{partition}", partition)


@pytest.mark.parametrize("lost", ["the others", "the others and ZooKeeper"])
def test_a_server_that_is_cut_off_from(
    partitioned: Partitioned, tmp_path: Path, lost: str, full: bool
) -> None:
    cluster = partitioned.cluster
    cut = [*partitioned.peers, *(partitioned.zookeeper if "ZooKeeper" in lost else [])]
    with traffic(cluster, tmp_path / "load", f"cut off from {lost}") as load:
        load_the_victim(load, partitioned, tmp_path)
        for _ in range(CUTS_FULL if full else 1):
            for bridge in cut:
                bridge.cut()
            elapse("the session of the victim ends, and it stays cut off", SESSION_S + CUT_S)
            load.wait_progress()  # all partitions: somebody serves each of them
            for bridge in cut:
                bridge.mend()
            load.wait_progress()
            cluster.wait_settled()

"""The bill of a cluster over real backends is its log, whatever dies: of Spark, of Talos, of HBase.

``make faults`` only: a round takes minutes.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cluster_processes import ClusterProcesses
from tests.conftest import RunningBackends
from tests.faults.conftest import Shared
from tests.server_process import ROOT_KEY, ServerProcess
from tests.spark.conftest import TalosServer
from tests.spark.kills.cluster_kills import METERED, ClusterKills
from tests.spark.kills.copying import PARTITIONS
from tests.spark.standalone.standalone_cluster import StandaloneCluster, running_cluster
from tests.table_load import table_load
from tests.waiting import limit_s

from opentalos.sdk import ClientConfig, TalosAdmin

ROUNDS = int(os.environ.get("OPENTALOS_KILLS", "5"))
PAUSE_S = 0.1  # between two mutations of one thread
# Each round takes minutes.
pytestmark = [pytest.mark.backend, pytest.mark.timeout(7200)]


@dataclass(frozen=True)
class TalosCluster(TalosServer):
    """All servers, as a client names them."""

    servers: tuple[ServerProcess, ...] = ()

    @property
    def url(self) -> str:
        return ",".join(server.url for server in self.servers)

    @property
    def config(self) -> ClientConfig:
        return ClientConfig(
            endpoints=tuple(server.url for server in self.servers),
            key_id=ROOT_KEY.key_id,
            secret=ROOT_KEY.secret,
            deadline_s=limit_s(),  # of a put: servers start slowly beside Spark
        )


@pytest.fixture
def metered(
    shared: Shared, backends: RunningBackends, tmp_path: Path
) -> Iterator[ClusterProcesses]:
    """A cluster that publishes usage each second; the one of other faults makes room."""
    shared.discard()
    cluster = ClusterProcesses(tmp_path / "servers", backends, config=METERED)
    try:
        cluster.start()
        cluster.wait_settled()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def spark_cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    with running_cluster(tmp_path / "spark") as started:
        yield started


def test_the_bill_is_the_log_after_kills_of_executors_drivers_servers_and_hbase(
    metered: ClusterProcesses,
    spark_cluster: StandaloneCluster,
    backends: RunningBackends,
    tmp_path: Path,
) -> None:
    """A table on HBase is mutated meanwhile; its streams are billed as any topic is."""
    servers = tuple(metered.servers.values())
    hdfs = f"{backends.hdfs_url}/{metered.name}-lake"
    kills = ClusterKills(
        TalosCluster(servers[0], servers=servers), spark_cluster, hdfs, tmp_path / "kills"
    )
    hbase = backends.fleet.hbase
    with TalosAdmin(kills.server.config) as admin:
        resources = {topic.name: topic.resource for topic in admin.topics.list()}
    source = resources[kills.copying.source]
    with (
        table_load(list(servers), tmp_path / "load", "bill: all kinds of kills", PAUSE_S) as load,
        kills.traffic(),
    ):
        for number in range(ROUNDS):

            def also(partition: int = number % PARTITIONS) -> None:
                """The owner of a partition of the source, then HBase's region server."""
                victim = metered.owners(source)[partition]
                metered.kill(victim)
                metered.start(victim)
                hbase.daemon("hbase").kill()
                hbase.start_daemon("hbase")
                hbase.wait_ready(lambda _text: None)
                metered.wait_settled()
                load.wait_progress()

            kills.life(also=also)
    judged = kills.close()
    assert judged["billed"] > 2 * judged["copied"], "the table's streams are in the bill"

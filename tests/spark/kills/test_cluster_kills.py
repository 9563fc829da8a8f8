"""Sink, archive and bill on a cluster of Spark whose drivers and executors are killed in turn.

OPENTALOS_KILLS sets how many of each: one in ``make test-all``, twenty in ``make faults``.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import RunningBackends
from tests.server_process import ServerProcess
from tests.spark.conftest import TalosServer
from tests.spark.kills.cluster_kills import METERED, ClusterKills
from tests.spark.standalone.standalone_cluster import StandaloneCluster, running_cluster

KILLS = int(os.environ.get("OPENTALOS_KILLS", "1"))
pytestmark = [pytest.mark.backend, pytest.mark.timeout(900 + 240 * KILLS)]


@pytest.fixture
def metered(tmp_path: Path) -> Iterator[TalosServer]:
    """A server that publishes usage each second."""
    process = ServerProcess(tmp_path / "server", config=METERED).start()
    try:
        yield TalosServer(process)
    finally:
        process.kill()


@pytest.fixture
def spark_cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    with running_cluster(tmp_path / "spark") as started:
        yield started


def test_copy_archive_and_bill_have_each_message_once_after_kills_of_drivers_and_executors(
    metered: TalosServer,
    spark_cluster: StandaloneCluster,
    backends: RunningBackends,
    tmp_path: Path,
) -> None:
    hdfs = f"{backends.hdfs_url}/{tmp_path.name}-{os.urandom(4).hex()}"
    kills = ClusterKills(metered, spark_cluster, hdfs, tmp_path)
    with kills.traffic():
        for _ in range(KILLS):
            kills.life()
    judged = kills.close()
    assert (kills.drivers_killed, kills.executors_killed) == (KILLS, KILLS)
    shown = ", ".join(f"{count:,} {what}" for what, count in judged.items())
    sys.stdout.write(
        f"| {KILLS} drivers and {KILLS} executors killed: {shown}; 0 lost, 0 doubled\n"
    )

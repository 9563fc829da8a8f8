"""Backends that die, pause or fill up under load of the official SDK."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cluster_load import Traffic, traffic
from tests.cluster_processes import SESSION_S, ClusterProcesses
from tests.conftest import RunningBackends
from tests.faults.zookeeper_session import expire
from tests.waiting import completed, elapse, eventually

from opentalos.backends.hadoop.hdfs import HdfsBackend
from opentalos.broker.cluster.records import LEADER
from opentalos.broker.cluster.state import server_path

pytestmark = pytest.mark.backend

ROUNDS_FULL = 5
AWAY_FULL_S = 60.0
SESSIONS, SESSIONS_FULL = 4, 12  # for which ZooKeeper is away
# Of an HBase that pauses. Its session with ZooKeeper is 10 s, the last ping may be 3.3 s old: after
# a longer pause it answers for a second, then it ends itself.
PAUSE_HBASE_S = 5.0
AWAY_S = 1.0
PAUSE_S = 8.0
DISK_MB = 4096
LEFT_BYTES = 64 << 10


def outlast_sessions(load: Traffic, sessions: int) -> None:
    """For each of them: no partition waits for what is away.

    How short its longest silence was is printed; on a machine that is shared that says little.
    """
    load.wait_progress()
    for _ in range(sessions):
        elapse("a session without ZooKeeper ends", SESSION_S)
        load.wait_progress()


def quiet(_text: str) -> None:
    """No progress lines."""


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_puts_go_on_while_zookeeper_is_away(
    cluster: ClusterProcesses, backends: RunningBackends, tmp_path: Path, full: bool, how: str
) -> None:
    """For several sessions; those of a ZooKeeper that was only stopped end when it continues."""
    zookeeper = backends.fleet.zookeeper
    daemon = zookeeper.daemon("zookeeper")
    sessions = SESSIONS_FULL if full else SESSIONS
    with traffic(cluster, tmp_path, f"ZooKeeper {how} for {sessions} sessions") as load:
        opened = cluster.openings(load.resource)
        if how == "killed":
            daemon.kill()
            outlast_sessions(load, sessions)
            zookeeper.start_daemon("zookeeper")
        else:
            daemon.pause()
            outlast_sessions(load, sessions)
            daemon.resume()
        zookeeper.wait_ready(quiet)
        load.wait_progress()
        cluster.wait_settled()
        assert cluster.openings(load.resource) == opened, "a partition was dropped"


def test_zookeeper_silent_for_half_a_session_stops_no_put(
    cluster: ClusterProcesses, backends: RunningBackends, tmp_path: Path, full: bool
) -> None:
    zookeeper = backends.fleet.zookeeper.daemon("zookeeper")
    with traffic(cluster, tmp_path, "ZooKeeper silent for half a session") as load:
        opened = cluster.openings(load.resource)
        for _ in range(ROUNDS_FULL if full else 1):
            zookeeper.pause()
            elapse("half a session passes", SESSION_S / 2)
            zookeeper.resume()
            load.wait_progress()
        assert cluster.openings(load.resource) == opened, "a partition was dropped"


def test_a_session_that_expires(
    cluster: ClusterProcesses, backends: RunningBackends, tmp_path: Path, full: bool
) -> None:
    with traffic(cluster, tmp_path, "session expiry") as load:
        for _ in range(ROUNDS_FULL if full else 1):
            for record in (server_path(load.owner()), LEADER):
                expire(backends.zookeeper_hosts, f"{cluster.name}/{record}")
                load.wait_progress()
                cluster.wait_settled()


@pytest.mark.parametrize("how", ["killed", "paused"])
def test_a_datanode_of_the_pipeline_fails(
    cluster: ClusterProcesses, backends: RunningBackends, tmp_path: Path, full: bool, how: str
) -> None:
    hdfs = backends.fleet.hdfs
    with traffic(cluster, tmp_path, f"DataNode {how}") as load:
        for number in range(ROUNDS_FULL if full else 1):
            name = f"dn{number % hdfs.datanodes + 1}"
            if how == "killed":
                hdfs.daemon(name).kill()
                load.wait_progress()
                hdfs.start_daemon(name)
            else:
                hdfs.daemon(name).pause()
                elapse("writers to the DataNode get no answer", PAUSE_S)
                hdfs.daemon(name).resume()
            hdfs.wait_ready(quiet)
            load.wait_progress()


def test_the_namenode_restarts(
    cluster: ClusterProcesses, backends: RunningBackends, tmp_path: Path, full: bool
) -> None:
    hdfs = backends.fleet.hdfs
    with traffic(cluster, tmp_path, "NameNode restarted") as load:
        for _ in range(ROUNDS_FULL if full else 1):
            hdfs.daemon("nn").kill()
            elapse("calls of the servers fail", AWAY_S)
            hdfs.start_daemon("nn")
            hdfs.wait_ready(quiet)
            load.wait_progress()


def test_puts_go_on_while_hbase_is_stopped(
    cluster: ClusterProcesses, backends: RunningBackends, tmp_path: Path
) -> None:
    hbase = backends.fleet.hbase.daemon("hbase")
    with traffic(cluster, tmp_path, "HBase stopped") as load:
        opened = cluster.openings(load.resource)
        hbase.pause()
        began_s = time.monotonic()
        load.wait_progress()  # no partition waits for it
        took_s = time.monotonic() - began_s
        elapse("commits wait for HBase", max(0.0, PAUSE_HBASE_S - took_s))
        if took_s > PAUSE_HBASE_S:  # on a slow machine its session may be over
            hbase.kill()
            backends.fleet.hbase.start_daemon("hbase")
        else:
            hbase.resume()
        backends.fleet.hbase.wait_ready(quiet)
        load.wait_commits()
        assert cluster.openings(load.resource) == opened


@pytest.mark.timeout(1_200)  # of ``make faults``: five times a minute without HBase, and its start
def test_the_region_server_of_hbase_restarts(
    cluster: ClusterProcesses, backends: RunningBackends, tmp_path: Path, full: bool
) -> None:
    hbase = backends.fleet.hbase
    with traffic(cluster, tmp_path, "HBase restarted") as load:
        for _ in range(ROUNDS_FULL if full else 1):
            hbase.daemon("hbase").kill()
            elapse("calls of the servers fail", AWAY_FULL_S if full else AWAY_S)
            load.wait_progress()  # while it is away
            hbase.start_daemon("hbase")
            hbase.wait_ready(quiet)
            load.wait_commits()


@contextmanager
def small_disk(hdfs: HdfsBackend, name: str) -> Iterator[Path]:
    """The DataNode on an empty file system of its own; at the end on its former disk again."""
    folder = hdfs.data_dir(name)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(folder)]
    if os.getuid() != 0:
        if os.environ.get("CI"):  # a skip there would hide that the full disk was never tried
            pytest.fail("a file system of its own needs root")
        pytest.skip("a file system of its own needs root")
    hdfs.daemon(name).kill()
    completed(mount, check=True)
    try:
        hdfs.start_daemon(name)
        hdfs.wait_ready(quiet)
        yield folder
    finally:
        hdfs.daemon(name).kill()
        completed(["umount", "--lazy", str(folder)], check=True)
        hdfs.start_daemon(name)
        hdfs.wait_ready(quiet)


def resize(folder: Path, size_bytes: int) -> None:
    """Change the size of a file system in memory."""
    completed(["mount", "-o", f"remount,size={size_bytes}", str(folder)], check=True)


def test_the_disk_of_a_datanode_is_full(
    cluster: ClusterProcesses, backends: RunningBackends, tmp_path: Path
) -> None:
    hdfs = backends.fleet.hdfs
    with (
        small_disk(hdfs, "dn2") as folder,
        traffic(cluster, tmp_path, "disk of a DataNode full") as load,
    ):
        found = os.statvfs(folder)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        resize(folder, used + LEFT_BYTES)
        eventually("the disk is full", lambda: not os.statvfs(folder).f_bavail)
        load.wait_progress()
        resize(folder, DISK_MB << 20)
        load.wait_progress()

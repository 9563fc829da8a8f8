"""Backends that die, pause or fill up under load of the official SDK."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cluster_load import traffic
from tests.cluster_processes import SESSION_S, ClusterProcesses, wait_until
from tests.conftest import RunningBackends
from tests.faults.zookeeper_session import expire

from opentalos.backends.hdfs import HdfsBackend

pytestmark = [pytest.mark.backend, pytest.mark.timeout(1200)]

ROUNDS_FULL = 5
ZOOKEEPER_DOWN_S = 10.0  # longer than a session
AWAY_S = 1.0
PAUSE_S = 8.0
DISK_MB = 4096
LEFT_BYTES = 64 << 10
FULL_TIMEOUT_S = 30.0


def quiet(_text: str) -> None:
    """No progress lines."""


def test_zookeeper_down_for_longer_than_a_session(
    cluster: ClusterProcesses, backends: RunningBackends, tmp_path: Path, full: bool
) -> None:
    zookeeper = backends.fleet.zookeeper
    with traffic(cluster, tmp_path, f"ZooKeeper down {ZOOKEEPER_DOWN_S:.0f} s") as load:
        for _ in range(ROUNDS_FULL if full else 1):
            zookeeper.daemon("zookeeper").kill()
            time.sleep(ZOOKEEPER_DOWN_S)
            zookeeper.start_daemon("zookeeper")
            zookeeper.wait_ready(quiet)
            load.wait_progress()
            cluster.wait_settled()


def test_zookeeper_silent_for_half_a_session_stops_no_put(
    cluster: ClusterProcesses, backends: RunningBackends, tmp_path: Path, full: bool
) -> None:
    zookeeper = backends.fleet.zookeeper.daemon("zookeeper")
    with traffic(cluster, tmp_path, "ZooKeeper silent for half a session") as load:
        opened = cluster.openings(load.resource)
        for _ in range(ROUNDS_FULL if full else 1):
            zookeeper.pause()
            time.sleep(SESSION_S / 2)
            zookeeper.resume()
            load.wait_progress()
        assert cluster.openings(load.resource) == opened, "a partition was dropped"


def test_a_session_that_expires(
    cluster: ClusterProcesses, backends: RunningBackends, tmp_path: Path, full: bool
) -> None:
    with traffic(cluster, tmp_path, "session expiry") as load:
        for _ in range(ROUNDS_FULL if full else 1):
            for victim in (load.owner(), cluster.controller()):
                expire(backends.zookeeper_hosts, f"{cluster.name}/servers/{victim}")
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
                time.sleep(PAUSE_S)
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
            time.sleep(AWAY_S)
            hdfs.start_daemon("nn")
            hdfs.wait_ready(quiet)
            load.wait_progress()


def test_the_region_server_of_hbase_restarts(
    cluster: ClusterProcesses, backends: RunningBackends, tmp_path: Path, full: bool
) -> None:
    hbase = backends.fleet.hbase
    with traffic(cluster, tmp_path, "HBase restarted") as load:
        for _ in range(ROUNDS_FULL if full else 1):
            hbase.daemon("hbase").kill()
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
    subprocess.run(mount, check=True)
    try:
        hdfs.start_daemon(name)
        hdfs.wait_ready(quiet)
        yield folder
    finally:
        hdfs.daemon(name).kill()
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        hdfs.start_daemon(name)
        hdfs.wait_ready(quiet)


def resize(folder: Path, size_bytes: int) -> None:
    """Change the size of a file system in memory."""
    subprocess.run(["mount", "-o", f"remount,size={size_bytes}", str(folder)], check=True)


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
        wait_until(lambda: not os.statvfs(folder).f_bavail, "the disk is full", FULL_TIMEOUT_S)
        load.wait_progress()
        resize(folder, DISK_MB << 20)
        load.wait_progress()

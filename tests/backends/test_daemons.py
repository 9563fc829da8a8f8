"""``talos backend``: restarts, faults, repair, no leftovers."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.waiting import elapse, eventually

import opentalos.backends
from opentalos.backends.daemon import Daemon, Launch
from opentalos.backends.hadoop.hdfs import HdfsBackend
from opentalos.backends.places import BackendError
from opentalos.backends.ports import free_ports
from opentalos.backends.zookeeper import ZookeeperBackend
from opentalos.cli.commands.backend import backend

PAUSES = 20
BUSY = """
import threading
def work():
    with open({!r}, "ab", buffering=0) as ticks:
        while True:
            ticks.write(b".")
for _ in range(4):
    threading.Thread(target=work).start()
"""


def call(*arguments: str, expected: int = 0) -> str:
    done = CliRunner().invoke(backend, list(arguments))
    assert done.exit_code == expected, done.output
    return done.stdout if expected == 0 else str(done.exception)


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZookeeperBackend]:
    """A ZooKeeper for this test only."""
    made = ZookeeperBackend(tmp_path)
    yield made
    made.stop(print)


def test_a_missing_java_is_one_error_line_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    said = call("start", "zookeeper", "--home", str(tmp_path / "home"), expected=1)
    assert "need Java 17 or newer" in said
    assert "apt-get install" in said
    assert len(said.splitlines()) == 1


def test_missing_jars_name_the_command_that_fetches_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(BackendError, match="talos backend fetch zookeeper"):
        ZookeeperBackend(tmp_path).start(print, port=0)


def test_a_backend_that_was_never_started_has_a_status(tmp_path: Path) -> None:
    shown = call("status", "all", "--format", "json", "--home", str(tmp_path)).splitlines()
    assert {item["kind"]: item["missing"] for item in map(json.loads, shown)} == dict.fromkeys(
        ("hdfs", "zookeeper", "hbase", "druid", "kafka", "yarn"), "never started"
    )


def test_the_jars_of_hdfs_its_clients_and_yarn_are_of_one_hadoop() -> None:
    poms = Path(opentalos.backends.__path__[0]) / "poms"
    pattern = r"<groupId>org.apache.hadoop</groupId>.*<version>(.+)</version>"
    found = {
        kind: set(re.findall(pattern, (poms / f"{kind}.xml").read_text()))
        for kind in ("hdfs", "client", "yarn")
    }
    assert found["yarn"] == found["hdfs"] == found["client"]
    assert len(found["yarn"]) == 1


def test_free_ports_differ_and_are_below_those_of_outgoing_connections() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    given_out = Path("/proc/sys/net/ipv4/ip_local_port_range")
    assert max(ports) < int(given_out.read_text().split()[0])


@pytest.mark.backend
def test_a_restart_keeps_the_port_and_a_second_start_changes_nothing(
    zookeeper: ZookeeperBackend,
) -> None:
    home = str(zookeeper.home.parent)
    call("start", "zookeeper", "--home", home, "--port", "0")
    first = zookeeper.status()
    call("start", "zookeeper", "--home", home)
    assert zookeeper.status()["daemons"]["zookeeper"]["pid"] == first["daemons"]["zookeeper"]["pid"]
    call("stop", "zookeeper", "--home", home)
    assert zookeeper.daemon("zookeeper").pid is None
    call("start", "zookeeper", "--home", home, "--port", "0")
    assert zookeeper.ports == first["ports"]
    assert zookeeper.status()["ready"]


@pytest.mark.backend
def test_a_running_backend_rejects_another_port(zookeeper: ZookeeperBackend) -> None:
    zookeeper.start(print, port=0)
    other = free_ports(1)[0]
    with pytest.raises(BackendError, match="already running"):
        zookeeper.start(print, port=other)


def test_a_paused_daemon_rests_before_the_pause_returns(tmp_path: Path) -> None:
    busy = Daemon("busy", tmp_path)
    ticks = tmp_path / "ticks"
    busy.start(Launch([sys.executable, "-c", BUSY.format(str(ticks))]))
    try:
        eventually("the program writes", ticks.exists)
        for _ in range(PAUSES):
            busy.pause()
            before = ticks.stat().st_size
            elapse("a thread that still runs writes", 0.002)
            assert ticks.stat().st_size == before
            busy.resume()
    finally:
        busy.kill()


@pytest.mark.backend
def test_a_daemon_that_exits_is_reported_with_its_log(zookeeper: ZookeeperBackend) -> None:
    zookeeper.start(print, port=0)
    zookeeper.daemon("zookeeper").kill()
    with pytest.raises(BackendError, match="exited"):
        zookeeper.wait_ready(print)


@pytest.mark.backend
def test_a_killed_or_paused_datanode_is_detected_and_returns(tmp_path: Path) -> None:
    hdfs = HdfsBackend(tmp_path)  # its own: other tests count on three DataNodes
    try:
        hdfs.start(print, port=0)
        hdfs.daemon("dn1").kill()
        assert hdfs.missing() == "dn1 is not registered"
        hdfs.start_daemon("dn1")
        hdfs.wait_ready(print)
        hdfs.daemon("dn1").pause()
        assert hdfs.missing() == "dn1 is not registered"
        hdfs.daemon("dn1").resume()
        assert hdfs.missing() == ""
    finally:
        hdfs.stop(print)
    assert hdfs.status()["daemons"] == {name: {"pid": None, "rss_mb": 0} for name in ("nn", "dn1")}

"""Two servers with journals on HDFS, each with many quiet partitions, under every fault in turn.

One cluster, one load and one history over all faults. After each of them every partition must
acknowledge a put again. The last test kills both servers, so that late segments have no file,
verifies the stored logs, reads all partitions to the end and lets the history checker judge.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from tests.cluster_load import longest_gap
from tests.cluster_processes import SESSION_S, ClusterProcesses
from tests.conftest import RunningBackends
from tests.faults.conftest import FULL
from tests.faults.zookeeper_session import expire
from tests.open_files import OpenFilesWatch, hdfs_client
from tests.quiet_load import PARTITIONS_MAX, QuietLoad
from tests.waiting import elapse, eventually

from opentalos.broker.cluster.state import server_path
from opentalos.server.measuring.capacity import HDFS_FILES_MAX
from opentalos.testing.simulation.checks.checker import check
from opentalos.testing.simulation.history import History

pytestmark = pytest.mark.backend

PARTITIONS = 1_000 if FULL else 120
WRITERS = 8
# A journal so small that segments are written out, closed and rolled all the time.
CONFIG = f'{PARTITIONS_MAX}[log]\njournal = "on"\njournal_bytes_max = 2_097_152\n'
NAMES = ("s1", "s2")
LONGER_THAN_SESSION_S = SESSION_S + 2.0
HANGS_S = 8.0
AWAY_S = 1.0
AWAY_SESSIONS_S = 4 * SESSION_S
# Between two puts of a writer while ZooKeeper is away: nothing is rolled then, and the journals
# have room for 12 MiB more. Without it 900 puts/s filled them in 15 s.
AWAY_PAUSE_S = 0.02
HELD_S = 10.0  # the upkeep begins within it what it has to roll


def silently(_text: str) -> None:
    """No progress lines."""


@dataclass
class Quiet:
    """The cluster with its load, and who watches its files."""

    cluster: ClusterProcesses
    load: QuietLoad
    files: OpenFilesWatch

    @contextmanager
    def fault(self, name: str) -> Iterator[dict[int, str]]:
        """Whatever the body does: then every partition is written, and the cluster is whole.

        The body gets the owner of each partition, for which the figures are.
        """
        owners = self.cluster.owners(self.load.resource)
        self.files.take_peak()
        began_s = time.monotonic()
        before = len(self.load.acks)
        try:
            yield owners
            touched_s = self.load.touch_all()
            settled_s = self.cluster.wait_settled()
            self.load.touch_all()
            self._wait_few_files()
        except BaseException:
            sys.stdout.write(f"\n{name} failed; the servers said\n{self.cluster.said()}\n")
            raise
        times: dict[str, list[float]] = defaultdict(lambda: [began_s])
        for acked_s, partition in self.load.acks[before:]:
            times[owners[partition]].append(acked_s)
        shown = ", ".join(f"{key} {longest_gap(times[key]):.1f} s" for key in sorted(times))
        sys.stdout.write(
            f"\n| journals, {name}: longest without an ack {shown}; all {PARTITIONS} partitions "
            f"within {touched_s:.1f} s, whole after {settled_s:.1f} s more, "
            f"{len(self.load.acks) - before} acked, at most {self.files.take_peak()} files open\n"
        )

    def _wait_few_files(self) -> None:
        """A call that takes long holds no slot, so some more may be open during a fault."""
        eventually(
            "few files are open", lambda: self.files.now() <= HDFS_FILES_MAX, state=self.files.now
        )

    def hold(self) -> None:
        """Put nothing, until what is under way has ended and nothing is rolled any more."""
        self.load.hold()

        def unchanged() -> bool:
            before = self.files.paths()
            elapse("the upkeep rolls what it has to", HELD_S)
            return self.files.paths() == before

        eventually("without a put no file is opened or closed", unchanged)


@pytest.fixture(scope="module")
def quiet(backends: RunningBackends, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    folder = tmp_path_factory.mktemp("journals")
    cluster = ClusterProcesses(folder / "cluster", backends, NAMES, CONFIG)
    servers = list(cluster.servers.values())
    load = QuietLoad(servers, folder / "load", PARTITIONS, WRITERS)
    files = OpenFilesWatch(hdfs_client(backends, f"{backends.hdfs_url}/{cluster.name}"))
    try:
        cluster.start()
        cluster.wait_settled()
        load.start()
        yield Quiet(cluster, load, files)
    finally:
        load.stop()
        files.stop()
        cluster.close()


def test_kill_9_of_an_owner(quiet: Quiet) -> None:
    with quiet.fault("kill -9 of s1"):
        quiet.cluster.kill("s1")
        try:
            quiet.load.touch_all()
        finally:
            quiet.cluster.start("s1")


def test_a_datanode_is_killed(quiet: Quiet) -> None:
    hdfs = quiet.cluster.backends.fleet.hdfs
    with quiet.fault("DataNode killed"):
        hdfs.daemon("dn1").kill()
        try:
            quiet.load.touch_all()
        finally:
            hdfs.start_daemon("dn1")
            hdfs.wait_ready(silently)


def test_a_datanode_hangs(quiet: Quiet) -> None:
    hdfs = quiet.cluster.backends.fleet.hdfs
    with quiet.fault(f"DataNode hangs for {HANGS_S:.0f} s"):
        hdfs.daemon("dn2").pause()
        elapse("writers to the DataNode get no answer", HANGS_S)
        hdfs.daemon("dn2").resume()
        hdfs.wait_ready(silently)


def test_the_namenode_restarts(quiet: Quiet) -> None:
    hdfs = quiet.cluster.backends.fleet.hdfs
    with quiet.fault("NameNode restarted"):
        hdfs.daemon("nn").kill()
        elapse("calls of the servers fail", AWAY_S)
        hdfs.start_daemon("nn")
        hdfs.wait_ready(silently)


def test_zookeeper_restarts(quiet: Quiet) -> None:
    """Rolls are under way, whose partitions open again only with ZooKeeper."""
    zookeeper = quiet.cluster.backends.fleet.zookeeper
    with quiet.fault("ZooKeeper restarted"):
        zookeeper.daemon("zookeeper").kill()
        elapse("the servers lose their connections", AWAY_S)
        zookeeper.start_daemon("zookeeper")
        zookeeper.wait_ready(silently)


def test_zookeeper_is_away(quiet: Quiet) -> None:
    """No roll is under way, so every partition is open, and acknowledges puts all the time."""
    zookeeper = quiet.cluster.backends.fleet.zookeeper
    quiet.hold()  # idle segments with too few DataNodes, from faults before, are sealed
    quiet.load.go_on(AWAY_PAUSE_S)
    quiet.load.touch_all()  # and opened again, which needs ZooKeeper
    quiet.hold()
    with quiet.fault(f"ZooKeeper away for {AWAY_SESSIONS_S:.0f} s"):
        zookeeper.daemon("zookeeper").kill()
        quiet.load.go_on(AWAY_PAUSE_S)
        try:
            elapse("sessions would end", AWAY_SESSIONS_S)
            quiet.load.touch_all()
        finally:
            zookeeper.start_daemon("zookeeper")
            zookeeper.wait_ready(silently)
            quiet.load.go_on()


def test_a_server_is_paused_longer_than_its_session(quiet: Quiet) -> None:
    with quiet.fault("s2 paused longer than its session"):
        with quiet.cluster.paused("s2"):
            elapse("its session ends while it is paused", LONGER_THAN_SESSION_S)
            quiet.load.touch_all()  # s1 has taken them


def test_a_session_expires(quiet: Quiet) -> None:
    cluster = quiet.cluster
    with quiet.fault("session of s1 expired"):
        expire(cluster.backends.zookeeper_hosts, f"{cluster.name}/{server_path('s1')}")


def test_nothing_acknowledged_was_lost(quiet: Quiet) -> None:
    """The last test: it ends the load and the cluster."""
    cluster, load = quiet.cluster, quiet.load
    load.wait_progress()
    cluster.kill()
    load.stop()
    verify(cluster)
    cluster.start()
    final = load.folder / "final.jsonl"
    load.read_all(cluster.servers["s1"], final)
    cluster.stop()
    verify(cluster)
    history = History.load(sorted(load.folder.glob("*.jsonl")))
    unknown = sum(put.outcome.value in ("unknown", "open") for put in history.of("put"))
    sys.stdout.write(f"\n| journals, in all: {sum(load.answered)} acked, {unknown} unknown puts\n")
    assert [str(anomaly) for anomaly in check(history)] == []
    assert sum(load.answered) >= 3 * PARTITIONS, "hardly any load"


def verify(cluster: ClusterProcesses) -> None:
    """Nothing stored is damaged, while no server runs."""
    said: list[str] = []

    def verified() -> bool:
        done = cluster.verify()
        said[:] = [done.stdout, done.stderr]
        return "servers run on this storage" not in done.stderr

    eventually("the sessions of killed servers end", verified)
    sys.stdout.write(f"\n| journals, verified: {said[0].splitlines()[-1:]}\n")
    assert " 0 problems" in said[0], said

"""Several real ``talos serve`` processes that make one cluster over real backends, for tests."""

import base64
import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conftest import RunningBackends
from tests.raw_client import RawClient, idl
from tests.server_process import ROOT_KEY, TALOS, ServerProcess
from tests.waiting import completed, eventually, limit_s

from opentalos.backends.ports import free_ports

SESSION_S = 5.0  # shorter ones end by themselves when the machine is busy
LEASE_S = 4.0
RESTART_S = 20.0
KEY_BYTES = 32
# Java without its optimizing compiler: a start takes 4 s of processor time instead of 6.
QUICK_START = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}

CONFIG = """
[storage]
files = "{hdfs_url}/{name}"
meta = "zookeeper://{zookeeper_hosts}/{name}"
rows = "{hbase_url}/{name}"
open_timeout_s = 120.0
[cluster]
name = "{server}"
key_file = "{key_file}"
stable_after_s = 1.0
restart_s = {restart_s}
restart = "{restart}"
[zookeeper]
session_s = {session_s}
[hdfs]
conf_dir = "{hdfs_conf_dir}"
[jvm]
jars = "{jars}"
heap_mb = 128
[group]
lease_s = {lease_s}
"""


def wait_none_left(
    what: str, left: Callable[[], int], state: Callable[[], object] | None = None
) -> float:
    """Wait until ``left`` is 0; returns the seconds that took.

    As long as it becomes less, the wait may last: 1,000 partitions need more than three do.
    """
    began = time.monotonic()
    least = left()
    while least:
        now = least

        def less(bound: int = least) -> bool:
            nonlocal now
            now = left()
            return now < bound

        eventually(what, less, state=state)
        least = now
    return time.monotonic() - began


def rest_get(server: ServerProcess, path: str) -> dict[str, Any]:
    """What an administrator is answered. AssertionError: another status than 200."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=limit_s())
    pair = f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}".encode()
    headers = {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    try:
        connection.request("GET", path, headers=headers)
        reply = connection.getresponse()
        text = reply.read()
    finally:
        connection.close()
    assert reply.status == http.client.OK, f"{reply.status} {text!r}"
    document: dict[str, Any] = json.loads(text)
    return document


@dataclass
class ClusterProcesses:
    """Servers by name, each with its own data directory and a port that it keeps.

    ``name`` is the corner of the shared backends: HDFS directory, ZooKeeper chroot, namespace.
    """

    folder: Path
    backends: RunningBackends
    names: Sequence[str] = ("s1", "s2", "s3")
    config: str = ""  # more sections of the TOML file
    lease_s: float = LEASE_S
    restart_s: float = RESTART_S
    name: str = field(default_factory=lambda: f"c{os.urandom(5).hex()}")
    launchers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    servers: dict[str, ServerProcess] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        key_file = self.folder / "cluster.key"
        key_file.write_bytes(base64.b64encode(os.urandom(KEY_BYTES)) + b"\n")
        for server, port in zip(self.names, free_ports(len(self.names)), strict=True):
            config = CONFIG.format(
                hdfs_url=self.backends.hdfs_url,
                hdfs_conf_dir=self.backends.hdfs_conf_dir,
                zookeeper_hosts=self.backends.zookeeper_hosts,
                hbase_url=self.backends.hbase_url,
                jars=self.backends.jars,
                name=self.name,
                server=server,
                key_file=key_file,
                session_s=SESSION_S,
                lease_s=self.lease_s,
                restart_s=self.restart_s,
                restart="wait",
            )
            process = ServerProcess(
                self.folder / server,
                config + self.config,
                port=port,
                environment=QUICK_START,
            )
            if server in self.launchers:
                process.launcher = self.launchers[server]
            self.servers[server] = process

    def start(self, *names: str) -> None:
        """Start servers, all that do not run unless named, at the same time."""
        chosen = [self.servers[name] for name in names or self.names]
        with ThreadPoolExecutor(len(chosen)) as pool:
            list(pool.map(ServerProcess.start, [item for item in chosen if item.process is None]))

    def lend(self, name: str) -> None:
        """From its next start on, restarts of a server lend its partitions."""
        server = self.servers[name]
        server.config = server.config.replace('restart = "wait"', 'restart = "lend"')

    def lends(self, name: str) -> bool:
        """Whether the partitions of a server are lent while it restarts."""
        return 'restart = "lend"' in self.servers[name].config

    def stop(self, *names: str) -> None:
        """SIGTERM, all at the same time."""
        with ThreadPoolExecutor(len(self.names)) as pool:
            list(pool.map(ServerProcess.stop, [self.servers[item] for item in names or self.names]))

    def kill(self, *names: str) -> None:
        """SIGKILL."""
        for name in names or self.names:
            self.servers[name].kill()

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """SIGSTOP, and SIGCONT at the end."""
        self.servers[name].pause()
        try:
            yield
        finally:
            self.servers[name].resume()

    @property
    def running(self) -> list[str]:
        """Names of servers whose process runs."""
        return [name for name, item in self.servers.items() if item.process is not None]

    def status(self, name: str | None = None) -> dict[str, Any]:
        """What one server, by default any that answers, says of the cluster."""
        problems = []
        for item in [name] if name else self.running:
            try:
                return rest_get(self.servers[item], "/rest/v1/cluster")
            except (OSError, http.client.HTTPException, AssertionError) as error:
                problems.append(f"{item}: {error!r}")
        raise AssertionError(f"no server reports its status: {problems}")

    def openings(self, resource: str) -> dict[tuple[str, int], int]:
        """How often a server opened a partition of a topic for writing, according to its log.

        An opening after a commit that hung does not count: storage on a busy machine does that.
        """
        uuid = re.escape(resource.rpartition("#")[2])
        opened = re.compile(rf"topic {uuid} partition (\d+) is (?:open|recovered) at epoch")
        hung = re.compile(rf"topic {uuid} partition (\d+): a commit hangs ")
        found: Counter[tuple[str, int]] = Counter()
        for name, item in self.servers.items():
            said = (item.folder / "server.stderr").read_text(errors="replace")
            found.update((name, int(number)) for number in opened.findall(said))
            found.subtract((name, int(number)) for number in hung.findall(said))
        return dict(found)

    def controller(self) -> str:
        """Name of the controller, once all running servers name the same one."""

        def agreed() -> str:
            leaders = {str(status["leader"]) for status in self._statuses()}
            return leaders.pop() if len(leaders) == 1 else ""

        return eventually("the servers agree on a controller", agreed, state=self.said)

    def owners(self, resource: str, name: str | None = None) -> dict[int, str]:
        """Which server serves each partition of a topic, as ``name`` reports to clients."""
        by_address = {f"127.0.0.1:{item.port}": key for key, item in self.servers.items()}
        client = RawClient(self.servers[name or self.running[0]].port)
        topic = idl("topic").TopicTalosResourceName(resource)
        try:
            request = idl("message").GetScheduleInfoRequest(topic)
            schedule = client.call("message", "getScheduleInfo", request).scheduleInfo
        finally:
            client.close()
        return {place.partitionId: by_address[host] for place, host in schedule.items()}

    def settled(self) -> bool:
        """All running servers serve and say so of each other, and nothing moves or is lent.

        Each is asked: one that has just lost its session says what it knew before.
        """
        return not self._unsettled()

    def _unsettled(self) -> int:
        """0 if it is settled; less when partitions have come to rest."""
        statuses = self._statuses()
        leaders = {status["leader"] for status in statuses}
        if leaders != {""} and len(leaders) == 1:
            if all(map(self._is_settled, statuses)):
                return 0
            return 1 + sum(map(self._in_motion, statuses))
        return sys.maxsize

    def _statuses(self) -> list[dict[str, Any]]:
        """What each running server says of the cluster; of one that does not answer, nothing."""
        try:
            return [self.status(name) for name in self.running]
        except AssertionError:
            return [{"leader": ""}]

    def _is_settled(self, status: dict[str, Any]) -> bool:
        serving = {server["name"] for server in status["servers"] if server["state"] == "serving"}
        return serving == set(self.running) and not self._in_motion(status)

    @staticmethod
    def _in_motion(status: dict[str, Any]) -> int:
        """How many partitions move, wait for a server or are lent."""
        return len(status["moving"]) + int(status["unassigned"]) + int(status["lent"])

    def wait_settled(self) -> float:
        """Wait until it is settled; returns the seconds that took."""
        return wait_none_left("the cluster settles", self._unsettled, self.said)

    def verify(self) -> "subprocess.CompletedProcess[str]":
        """``talos log verify`` on its storage; refused while servers run on that."""
        folder = self.servers[self.names[0]].folder
        command = [str(TALOS), "log", "verify", "--config", str(folder / "config.toml")]
        return completed([*command, "--data", str(folder / "data")])

    def said(self) -> str:
        """The end of every server's log."""
        return "\n".join(f"--- {name}\n{item.stderr()}" for name, item in self.servers.items())

    def close(self) -> None:
        """End all at once."""
        for server in self.servers.values():
            if server.process is not None:
                server.kill()

"""A cluster of server processes over real backends, for benchmarks."""

import base64
import http.client
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.backends import Backends
from bench.client import BenchTopic, Client
from bench.server import KEY_ID, SECRET, ServerProcess
from opentalos.backends.ports import free_ports
from opentalos.wire._generated.message import MESSAGE_SERVICE, GetScheduleInfoRequest

READY_TIMEOUT_S = 150.0  # several JVMs start at once
STOP_TIMEOUT_S = 25.0  # above [cluster] stop_s
SETTLE_TIMEOUT_S = 120.0
REST_TIMEOUT_S = 10.0
POLL_S = 0.1
STABLE_S = 1.0  # a killed server gets its share back soon
Settings = Mapping[str, Mapping[str, object]]
UNLIMITED: Settings = {
    "quota": {
        "user_put_requests_per_s": 10_000_000,
        "topic_put_requests_per_s": 10_000_000,
        "user_put_bytes_per_s": 100 << 30,
        "topic_put_bytes_per_s": 100 << 30,
    }
}
_LOG_LINE = re.compile(r"(\S+)Z \w+ \S+ (.*)")


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float) -> float:
    """Wait and return the seconds it took. Raises: RuntimeError: timeout."""
    began_s = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - began_s
        if waited_s > timeout_s:
            raise RuntimeError(f"not after {waited_s:.0f} s: {what}")
        time.sleep(POLL_S)
    return time.monotonic() - began_s


class Cluster:
    """Servers by name, which keep their ports; a context manager that starts and stops all."""

    launcher: list[str] | None = None  # of each server; None: ``talos serve``

    def __init__(
        self,
        folder: Path,
        backends: Backends | None,
        names: Sequence[str] = ("s1", "s2", "s3"),
        settings: Settings | None = None,
    ) -> None:
        self.name = f"b{os.urandom(5).hex()}"  # of HDFS directory, chroot and namespace
        self._backends, self.names = backends, names
        folder = folder / self.name
        folder.mkdir(parents=True)
        key_file = folder / "cluster.key"
        key_file.write_bytes(base64.b64encode(os.urandom(32)) + b"\n")
        self.servers: dict[str, ServerProcess] = {}
        for name, port in zip(names, free_ports(len(names)), strict=True):
            sections = self._sections(name, key_file)
            for section, keys in (settings or {}).items():
                sections[section] = {**sections.get(section, {}), **keys}
            self.servers[name] = ServerProcess(
                folder / name,
                settings=sections,
                launcher=self.launcher,
                port=port,
                ready_timeout_s=READY_TIMEOUT_S,
            )

    @property
    def backends(self) -> Backends:
        """HDFS, ZooKeeper and HBase of the servers."""
        assert self._backends is not None
        return self._backends

    def _sections(self, name: str, key_file: Path) -> dict[str, Mapping[str, object]]:
        backends = self.backends
        return {
            "storage": {
                "files": f"{backends.hdfs_url}/{self.name}",
                "meta": f"zookeeper://{backends.zookeeper_hosts}/{self.name}",
                "rows": f"{backends.hbase_url}/{self.name}",
                "open_timeout_s": 120.0,
            },
            "cluster": {"name": name, "key_file": str(key_file), "stable_after_s": STABLE_S},
            "hdfs": {"conf_dir": backends.hdfs_conf_dir},
            "jvm": {"jars": backends.jars},
            **UNLIMITED,
        }

    def __enter__(self) -> "Cluster":
        try:
            self.start()
            self.wait_settled()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def start(self, *names: str) -> None:
        """Start servers concurrently, all unless named."""
        chosen = [self.servers[name] for name in names or self.names]
        with ThreadPoolExecutor(len(chosen)) as pool:
            list(pool.map(ServerProcess.start, chosen))

    def end(self) -> None:
        """kill -9 all servers; their data is not needed again."""
        for server in self.servers.values():
            if server.running:
                server.kill()

    @property
    def running(self) -> list[str]:
        """The names of running servers."""
        return [name for name, server in self.servers.items() if server.running]

    @property
    def ports(self) -> list[int]:
        """The ports of running servers."""
        return [self.servers[name].port for name in self.running]

    def call(self, method: str, path: str, name: str = "") -> Any:
        """Call REST of a server, by default the first running one."""
        port = self.servers[name or self.running[0]].port
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REST_TIMEOUT_S)
        pair = base64.b64encode(f"{KEY_ID}:{SECRET}".encode()).decode()
        try:
            connection.request(method, path, headers={"Authorization": f"Basic {pair}"})
            reply = connection.getresponse()
            text = reply.read()
        finally:
            connection.close()
        if reply.status not in (http.client.OK, http.client.NO_CONTENT):
            raise RuntimeError(f"{method} {path}: {reply.status} {text!r}")
        return json.loads(text) if text else None

    def status(self) -> Any:
        """The cluster status that a server reports."""
        return self.call("GET", "/rest/v1/cluster")

    def settled(self) -> bool:
        """Whether all running servers serve, see each other, and nothing moves or is lent."""
        try:
            status = self.status()
        except (OSError, http.client.HTTPException, RuntimeError):
            return False
        serving = {server["name"] for server in status["servers"] if server["state"] == "serving"}
        quiet = not status["moving"] and not status["unassigned"]
        # A server of a build from before lending does not say it.
        quiet = quiet and not status.get("lent", 0)
        return serving == set(self.running) and quiet and bool(status["leader"])

    def wait_settled(self) -> float:
        """Wait until settled; return the seconds it took."""
        return wait_until(self.settled, "the cluster settles", SETTLE_TIMEOUT_S)

    def create_topic(self, name: str, partitions: int, **attributes: str) -> BenchTopic:
        """Create a topic and wait until every partition has a server."""
        client = Client(self.ports[0])
        topic = client.create_topic(name, partitions, **attributes)
        wait_until(
            lambda: len(self.owners(topic)) == partitions, f"{name} is assigned", SETTLE_TIMEOUT_S
        )
        return topic

    def owners(self, topic: BenchTopic, name: str = "") -> dict[int, str]:
        """The server of each partition, as published by a server, by default the first."""
        by_address = {f"127.0.0.1:{server.port}": key for key, server in self.servers.items()}
        client = Client(self.servers[name or self.running[0]].port)
        request = GetScheduleInfoRequest(topicTalosResourceName=topic.resource)
        published = client.call(MESSAGE_SERVICE, "getScheduleInfo", request).scheduleInfo
        known = (
            (partition.partitionId, by_address.get(host)) for partition, host in published.items()
        )
        return {partition: owner for partition, owner in known if owner is not None}

    def log_lines(self, since_s: float) -> Iterator[tuple[float, str]]:
        """Time and text of the log lines of all servers since a time."""
        for server in self.servers.values():
            path = server.data.parent / f"{server.data.name}.log"
            for line in path.read_text(errors="replace").splitlines():
                found = _LOG_LINE.match(line)
                if found is None:
                    continue
                at_s = datetime.fromisoformat(found[1] + "+00:00").timestamp()
                if at_s >= since_s:
                    yield at_s, found[2]

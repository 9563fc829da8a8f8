"""Which DataNode is taken out of a pipeline, by what its ports answer. Java's side is of Python."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import MagicMock

import pytest
from tests.unit.adapters.hdfs.java import JavaError

from opentalos.adapters.hdfs.silent_nodes import PROBE_S, SilentNodes, silent_nodes
from opentalos.model.limits import HdfsLimits

ANSWERS = ""
HANGS = "SocketTimeoutException"
NO_CONNECTION = "ConnectTimeoutException"
REFUSES = "ConnectException"
TIMEOUT_MS = int(PROBE_S * 1000)


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict counts for a second, in which a busy machine may not get far."""
    monkeypatch.setattr("opentalos.adapters.hdfs.silent_nodes.monotonic", lambda: 1.0)


class Node:
    """A DataNode: what its port of calls does, and the one of its data."""

    def __init__(self, name: str, calls: str, data: str) -> None:
        self.name, self.calls, self.data = name, calls, data

    def getXferAddr(self, by_name: bool = False) -> str:
        return f"{self.name}:9866"

    def getIpcAddr(self, by_name: bool) -> str:
        return f"{self.name}:9867"


class Java:
    """The classes, and one stream that writes to ``nodes``."""

    JException = JavaError

    def __init__(self, *nodes: tuple[str, str]) -> None:
        names = (f"dn{number}" for number in range(1, len(nodes) + 1))
        self.nodes = [Node(name, *ports) for name, ports in zip(names, nodes, strict=True)]
        self.asked: list[str] = []
        self.connected: list[str] = []  # to their ports of data
        self.open_sockets = self.open_proxies = 0
        self.bad: list[int] = []
        self.excluded: list[str] = []  # from a new file
        self.woken = 0

    def silent(self, replicas_min: int = 1) -> SilentNodes:
        limits = HdfsLimits(replication=3, replicas_min=replicas_min)
        made = silent_nodes(self, self._classes, MagicMock(), limits)
        assert made is not None
        made._streamer, made._nodes, made._queue = MagicMock(), MagicMock(), MagicMock()
        made._state = MagicMock()
        made._nodes.get.return_value = self.nodes
        made._integer = int
        made._mark, made._fail = MagicMock(), MagicMock()
        made._exclude = MagicMock()
        made._exclude.invoke = lambda _cache, node, _value: self.excluded.append(node.name)
        made._mark.invoke = lambda _state, place: self.bad.append(place)
        made._queue.get.return_value.notifyAll = self._wake
        return made

    @contextlib.contextmanager
    def synchronized(self, _monitor: object) -> Iterator[None]:
        yield

    def _wake(self) -> None:
        self.woken += 1

    def _classes(self, name: str) -> Any:
        known = {"org.apache.hadoop.hdfs.DFSUtilClient": self, "org.apache.hadoop.ipc.RPC": self,
                 "org.apache.hadoop.net.NetUtils": self}  # fmt: skip
        return known.get(name) or MagicMock(name=name)

    # --- calls of a DataNode --------------------------------------------------------------------

    def createClientDatanodeProtocolProxy(
        self, node: Node, _configuration: object, timeout_ms: int, _by_name: bool
    ) -> Any:
        assert timeout_ms == TIMEOUT_MS
        self.asked.append(node.name)
        self.open_proxies += 1
        proxy = MagicMock()
        if node.calls:
            assert node.calls == HANGS, "no connection"
            proxy.getDatanodeInfo.side_effect = JavaError(node.calls)
        return proxy

    def stopProxy(self, _proxy: object) -> None:
        self.open_proxies -= 1

    # --- connections ----------------------------------------------------------------------------

    def createSocketAddr(self, address: str) -> str:
        return address

    def getDefaultSocketFactory(self, _configuration: object) -> "Java":
        return self

    def createSocket(self) -> "Java":
        self.open_sockets += 1
        return self

    def connect(self, _socket: "Java", address: str, timeout_ms: int) -> None:
        assert timeout_ms == TIMEOUT_MS
        name, _, port = address.partition(":")
        (node,) = [each for each in self.nodes if each.name == name]
        if port == "9866":
            self.connected.append(node.name)
        failure = node.data if port == "9866" else node.calls
        if failure not in (ANSWERS, HANGS):
            raise JavaError(failure)

    def close(self) -> None:
        self.open_sockets -= 1


HEALTHY = (ANSWERS, ANSWERS)
STOPPED = (HANGS, ANSWERS)  # the kernel still accepts connections


@pytest.mark.parametrize(
    ("ports", "dropped"),
    [
        (HEALTHY, False),
        (STOPPED, True),
        ((HANGS, NO_CONNECTION), True),
        ((NO_CONNECTION, NO_CONNECTION), True),  # the host is gone
        ((NO_CONNECTION, ANSWERS), False),  # a firewall
        ((NO_CONNECTION, REFUSES), False),  # its process is gone, as the client notices
        ((REFUSES, NO_CONNECTION), False),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_datanode_is_dropped_only_if_it_hangs_or_its_host_is_gone(
    ports: tuple[str, str], dropped: bool, place: int
) -> None:
    nodes = [HEALTHY] * 3
    nodes[place] = ports
    java = Java(*nodes)
    assert java.silent().drop(MagicMock()) == (f"dn{place + 1}:9866" if dropped else "")
    assert java.bad == ([place] if dropped else [])
    assert java.woken == len(java.bad)
    assert java.open_proxies == java.open_sockets == 0


def test_a_firewall_before_the_calls_of_datanodes_cuts_no_pipeline() -> None:
    filtered = (NO_CONNECTION, ANSWERS)
    java = Java(filtered, filtered, HEALTHY)
    silent = java.silent()
    assert [silent.drop(MagicMock()) for _ in range(3)] == ["", "", ""]
    assert java.bad == []


def test_a_verdict_counts_for_the_files_that_follow() -> None:
    java = Java(STOPPED, HEALTHY, (NO_CONNECTION, ANSWERS))
    silent = java.silent()
    assert {silent.drop(MagicMock()) for _ in range(5)} == {"dn1:9866"}
    assert java.asked == ["dn1", "dn2"]
    assert java.connected == ["dn3"]


@pytest.mark.parametrize("nodes", [[STOPPED], [STOPPED] * 3])
def test_the_last_datanode_and_all_of_them_stay(nodes: Sequence[tuple[str, str]]) -> None:
    java = Java(*nodes)
    assert java.silent().drop(MagicMock()) == ""
    assert java.bad == []


@pytest.mark.parametrize(
    ("nodes", "replicas_min", "dropped"),
    [(3, 2, True), (2, 2, False), (2, 1, True),
     (3, 3, True)],  # the client may replace it; else the file can be fenced at once
)  # fmt: skip
def test_a_short_pipeline_is_not_cut_below_what_a_commit_needs(
    nodes: int, replicas_min: int, dropped: bool
) -> None:
    java = Java(STOPPED, *[HEALTHY] * (nodes - 1))
    assert java.silent(replicas_min).drop(MagicMock()) == ("dn1:9866" if dropped else "")
    assert java.bad == ([0] if dropped else [])


def test_a_new_file_leaves_out_a_datanode_that_still_hangs() -> None:
    java = Java(HEALTHY, STOPPED, HEALTHY)
    silent = java.silent()
    silent.avoid(MagicMock())
    assert java.asked == [], "nothing is known of them"
    silent.drop(MagicMock())
    silent.avoid(MagicMock())
    assert java.excluded == ["dn2"]
    java.nodes[1].calls = ANSWERS
    silent._known.clear()  # a second later
    for _ in range(2):
        silent.avoid(MagicMock())
    assert java.excluded == ["dn2"]
    assert java.asked == ["dn1", "dn2", "dn3", "dn2"], "once it answers it is as good as any"


def test_a_datanode_is_suspected_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    java = Java(STOPPED, HEALTHY)
    silent = java.silent()
    monkeypatch.setattr("opentalos.adapters.hdfs.silent_nodes.SUSPECTED_S", 0.0)
    silent.drop(MagicMock())
    silent.avoid(MagicMock())
    assert java.excluded == []


@pytest.mark.parametrize(("replicas_min", "excluded"), [(1, 2), (2, 1), (3, 0)])
def test_a_new_file_may_get_what_a_commit_needs(replicas_min: int, excluded: int) -> None:
    java = Java(STOPPED, STOPPED, HEALTHY)
    silent = java.silent(replicas_min)
    silent.drop(MagicMock())
    silent.avoid(MagicMock())
    assert len(java.excluded) == excluded

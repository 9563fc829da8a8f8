"""A real agent: what it refuses, and that nothing is lost while the server is away."""

import json
import socket
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.agent_process import AgentProcess
from tests.e2e.measuring.events import (
    administrator,
    assert_each_key_once,
    events_of,
    upserted,
    wait_for_rows,
)
from tests.e2e.rest.client import authorization, rest
from tests.server_process import Key, ServerProcess
from tests.waiting import eventually, limit_s

from opentalos.adapters.spool.spool_format import decode_line
from opentalos.wire.metrics.measurement import Measurement, decode_measurement
from opentalos.wire.metrics.measures import Kind, Scope, names

POINT: dict[str, Any] = {
    "endpoint": "app",
    "metric": "jobs",
    "timestamp": 1_764_000_000,
    "step": 60,
    "value": 1,
    "counterType": "COUNTER",
    "tags": "clusterName=c,topicName=t,partitionId=0,ip=10.0.0.7",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    running = ServerProcess(tmp_path / "server").start()
    yield running
    running.stop()


@pytest.fixture
def agent(server: ServerProcess, tmp_path: Path) -> Iterator[AgentProcess]:
    running = AgentProcess(tmp_path / "agent", server.url).start()
    yield running
    running.stop()


def push(agent: AgentProcess, value: float, **changes: Any) -> None:
    body = json.dumps([POINT | {"value": value} | changes]).encode()
    assert agent.post(body) == (200, "success\n")


def jobs(rows: list[Measurement]) -> float:
    return sum(row.sums.get("jobs", 0.0) for row in rows if row.service == "client")


def machine_rows(rows: list[Measurement]) -> list[Measurement]:
    return [row for row in rows if row.service == "machine"]


def spooled(agent: AgentProcess) -> list[Measurement]:
    """What waits on disk."""
    files = [file.read_bytes() for file in sorted(agent.spool.glob("*.spool"))]
    events = [decode_line(line) for data in files for line in data.splitlines(keepends=True)]
    return [decode_measurement(event) for event in events if event is not None]


def wait_spooled(agent: AgentProcess, count: float) -> None:
    """So many jobs are on disk."""
    what = f"the spool has {count} jobs"
    eventually(what, lambda: jobs(spooled(agent)) >= count, state=lambda: spooled(agent))


def wait_keeping(agent: AgentProcess) -> None:
    """Something is on disk."""
    files = agent.spool
    eventually("the spool is in use", lambda: any(f.stat().st_size for f in files.glob("*.spool")))


def test_a_machine_is_measured(server: ServerProcess, agent: AgentProcess) -> None:
    rows = wait_for_rows(administrator(server.url), lambda rows: len(machine_rows(rows)) > 1)
    for row in machine_rows(rows):
        assert (row.machine, row.cluster, row.topic, row.partition) == ("machine-1", "", "", -1)
        assert (row.at_ms % 1_000, row.step_ms % 1_000) == (0, 0)
        assert row.sums.keys() == names(Kind.SUM, Scope.MACHINE)
        assert row.gauges.keys() == names(Kind.GAUGE, Scope.MACHINE)
        assert row.gauges["memory_total_bytes"] > row.gauges["memory_bytes"] > 0
        assert 0 < row.gauges["disk_used_share"] < 1
        assert row.sums["cpu_ms"] < 3_600_000  # of the step, not since the machine's start
    assert_each_key_once(rows)


def test_counters_are_sums_and_gauges_are_gauges(
    server: ServerProcess, agent: AgentProcess
) -> None:
    for value in (10, 12, 17):
        push(agent, value)
    push(agent, 0.25, metric="load", counterType="GAUGE")
    rows = wait_for_rows(administrator(server.url), lambda rows: jobs(rows) >= 7)
    (row,) = (item for item in rows if "load" in item.gauges)
    assert row.gauges["load"] == 0.25
    assert (row.service, row.cluster, row.machine, row.topic, row.partition) == (
        "client", "c", "10.0.0.7", "t", 0,
    )  # fmt: skip
    assert jobs(rows) == 7


def test_an_invalid_push_is_refused_and_the_agent_continues(
    server: ServerProcess, agent: AgentProcess
) -> None:
    def refused(body: bytes, words: str, status: int = 400) -> None:
        found, text = agent.post(body)
        assert (found, words in text) == (status, True), text

    refused(b"", "not valid JSON")
    refused(b"{}", "array of points")
    refused(b"\xff" * 100, "not valid JSON")
    refused(b"[" * 100_000, "not valid JSON")
    refused(json.dumps([POINT, POINT | {"value": -1}]).encode(), "value of point 1")
    refused(json.dumps([POINT | {"value": float("nan")}]).encode(), "value of point 0")
    refused(json.dumps([POINT | {"value": 1e300}]).encode(), "value of point 0")
    refused(json.dumps([POINT] * 5_001).encode(), "at most 5000")
    many = [POINT | {"metric": f"m{number}", "counterType": "GAUGE"} for number in range(201)]
    refused(json.dumps(many).encode(), "metrics of one source", 429)
    assert agent.post(b"x" * ((1 << 20) + 1))[0] == 413
    assert agent.post(b"", method="GET")[0] == 405
    assert agent.post(b"", path="/other")[0] == 404
    with socket.create_connection(("127.0.0.1", agent.port)) as connection:
        connection.sendall(b"no http at all\r\n\r\n")
        connection.settimeout(limit_s())
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    push(agent, 1)
    push(agent, 3)
    rows = wait_for_rows(
        administrator(server.url),
        lambda rows: (
            jobs(rows) >= 2 and sum(row.sums["push_refused"] for row in machine_rows(rows)) >= 10
        ),
    )
    assert jobs(rows) == 2
    assert sum(row.sums["push_points"] for row in machine_rows(rows)) == 2


def test_nothing_is_lost_while_the_server_is_away(
    server: ServerProcess, agent: AgentProcess
) -> None:
    config = administrator(server.url)
    push(agent, 0)
    push(agent, 5)
    before = wait_for_rows(config, lambda rows: jobs(rows) >= 5)
    server.kill()
    push(agent, 9)
    wait_keeping(agent)
    push(agent, 10)
    wait_spooled(agent, 5)
    server.start()
    rows = upserted(wait_for_rows(config, lambda rows: jobs(upserted(rows)) >= 10))
    assert jobs(rows) == 10
    times = sorted({row.at_ms for row in machine_rows(rows)})
    assert times[-1] > max(row.at_ms for row in before)
    steps = {row.at_ms: row.step_ms for row in machine_rows(rows)}
    assert all(at_ms - steps[at_ms] == last for last, at_ms in pairwise(times))
    eventually("the spool is empty", lambda: not list(agent.spool.glob("*.spool")))


def test_it_stops_and_kills_lose_no_more_than_a_step(
    server: ServerProcess, agent: AgentProcess
) -> None:
    config = administrator(server.url)
    server.kill()
    push(agent, 0)
    push(agent, 5)
    assert agent.stop() == 0
    agent.start()
    push(agent, 5)
    push(agent, 7)
    wait_spooled(agent, 7)
    agent.kill()
    newest = max(agent.spool.glob("*.spool"))
    newest.write_bytes(newest.read_bytes() + b'0badc0de {"v":1,"torn')
    agent.start()
    server.start()
    rows = wait_for_rows(
        config,
        lambda rows: (
            jobs(rows) >= 7 and any(row.gauges["spool_corrupt"] == 1 for row in machine_rows(rows))
        ),
    )
    assert jobs(rows) == 7
    assert_each_key_once(rows)


def test_a_second_agent_and_a_port_in_use_are_reported(
    server: ServerProcess, agent: AgentProcess, tmp_path: Path
) -> None:
    second = AgentProcess(agent.folder, server.url)
    with pytest.raises(AssertionError, match="in use by another process"):
        second.start()
    second.kill()
    third = AgentProcess(tmp_path / "third", server.url, port=agent.port)
    with pytest.raises(AssertionError, match="cannot listen on"):
        third.start()
    third.kill()


def test_a_key_of_an_agent_writes_measurements_and_nothing_else(
    server: ServerProcess, tmp_path: Path
) -> None:
    rest(server, "POST", "principals", {"id": "machine-1", "role": "agent"})
    made = rest(server, "POST", "principals/machine-1/keys").document
    key = Key(made["key_id"], made["secret"])
    options = ("--interval", "1", "--as", f"{key.key_id}:{key.secret}")
    agent = AgentProcess(tmp_path / "agent", server.url, options).start()
    try:
        wait_for_rows(administrator(server.url), lambda rows: bool(machine_rows(rows)))
    finally:
        assert agent.stop() == 0
    headers = authorization(key)
    for method, path, document in (
        ("POST", "topics", {"name": "orders", "partitions": 1}),
        ("POST", "principals/machine-1/keys", {}),
        ("GET", "cluster", None),
        ("GET", "topics/__metrics/partitions/0/messages", None),
    ):
        assert rest(server, method, path, document, headers).status == 403, path
    assert rest(server, "GET", "principals", headers=headers).document["principals"][0]["id"] == (
        "machine-1"
    )


def test_a_key_that_may_not_put_waits_and_does_not_end_it(
    server: ServerProcess, tmp_path: Path
) -> None:
    options = ("--interval", "1", "--as", "AKNOBODY:wrong")
    agent = AgentProcess(tmp_path / "agent", server.url, options).start()
    try:
        wait_keeping(agent)
        eventually("the agent says so", lambda: "keeping them on disk" in agent.stderr())
        push(agent, 1)
    finally:
        assert agent.stop() == 0
    events = [decode_measurement(event) for event in events_of(administrator(server.url))]
    assert machine_rows(events) == []

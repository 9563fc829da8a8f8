"""The official SDK pushes to an agent, and what it pushed is in ``__metrics``."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.agent_process import AgentProcess
from tests.compat.conftest import Sdk, sdk_environment
from tests.e2e.measuring.events import administrator, wait_for_rows
from tests.server_process import ServerProcess
from tests.waiting import limit_s

from opentalos.wire.metrics.measurement import Measurement

NAMES = {
    "putMessage.60sRate",
    "putMessageFailed.60sRate",
    "putMessageTime.gauge",
    "putMessageTime.max",
    "putMessageTime.min",
}


@pytest.fixture
def agent(server: ServerProcess, tmp_path: Path) -> Iterator[AgentProcess]:
    running = AgentProcess(tmp_path / "agent", server.url).start()
    yield running
    running.stop()


def test_pushes_of_the_official_producer_arrive(
    sdk: Sdk, server: ServerProcess, agent: AgentProcess
) -> None:
    sdk.topic("pushed", partitions=2)
    config = {
        "galaxy.talos.client.falcon.monitor.switch": True,
        "galaxy.talos.metric.falcon.url": agent.push_url,
        "galaxy.talos.client.report.metric.interval.millis": 1_000,
    }

    def pushed(rows: Sequence[Measurement]) -> list[Measurement]:
        return [row for row in rows if row.service == "client"]

    def points(rows: Sequence[Measurement]) -> float:
        return sum(row.sums["push_points"] for row in rows if row.service == "machine")

    producer = subprocess.Popen(
        sdk.command("pushing_producer", topic="pushed", config=config),
        env=sdk_environment(),
        stdin=subprocess.PIPE,  # it stays until this is closed
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        rows = wait_for_rows(
            administrator(server.url),
            lambda rows: len(pushed(rows)) >= 2 and points(rows) >= 2 * len(NAMES),
        )
        result, _ = producer.communicate(timeout=limit_s())
    finally:
        producer.kill()
        producer.wait()
    assert json.loads(result) == {"succeeded": 10, "failed": []}
    found = pushed(rows)
    assert {row.topic for row in found} == {"pushed"}
    assert {row.partition for row in found} <= {0, 1}
    assert {name for row in found for name in row.gauges} == NAMES
    assert all(row.machine and row.cluster and not row.sums for row in found)
    assert max(row.gauges["putMessageTime.max"] for row in found) > 0
    machine = [row for row in rows if row.service == "machine"]
    assert points(rows) >= 2 * len(NAMES)
    assert sum(row.sums["push_refused"] for row in machine) == 0

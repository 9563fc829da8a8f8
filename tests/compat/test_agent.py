"""The official SDK pushes to an agent, and what it pushed is in ``__metrics``."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent_process import AgentProcess
from tests.compat.conftest import Sdk
from tests.e2e.measuring.events import administrator, wait_for_rows
from tests.server_process import ServerProcess

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
    (result,) = sdk.run(
        "pushing_producer",
        topic="pushed",
        stay_s=3.0,
        config={
            "galaxy.talos.client.falcon.monitor.switch": True,
            "galaxy.talos.metric.falcon.url": agent.push_url,
            "galaxy.talos.client.report.metric.interval.millis": 1_000,
        },
    )
    assert result == {"succeeded": 10, "failed": []}

    def pushed(row: object) -> bool:
        return getattr(row, "service", "") == "client"

    rows = wait_for_rows(
        administrator(server.url), lambda rows: len(list(filter(pushed, rows))) >= 2
    )
    found = list(filter(pushed, rows))
    assert {row.topic for row in found} == {"pushed"}
    assert {row.partition for row in found} <= {0, 1}
    assert {name for row in found for name in row.gauges} == NAMES
    assert all(row.machine and row.cluster and not row.sums for row in found)
    assert max(row.gauges["putMessageTime.max"] for row in found) > 0
    machine = [row for row in rows if row.service == "machine"]
    assert sum(row.sums["push_points"] for row in machine) >= 2 * len(NAMES)
    assert sum(row.sums["push_refused"] for row in machine) == 0

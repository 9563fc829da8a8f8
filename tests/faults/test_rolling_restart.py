"""Five servers restarted one after the other, each announced and back in time."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster_load import PARTITIONS, Traffic, traffic
from tests.cluster_processes import ClusterProcesses
from tests.conftest import RunningBackends
from tests.raw_client import RawClient, idl

pytestmark = [pytest.mark.backend, pytest.mark.timeout(600)]

ROUNDS_FULL = 3
WORKERS = 2
JOIN_TIMEOUT_S = 60.0
GROUP = "steady"
# Both outlast a restart, also on a machine that is busy with other tests.
LEASE_S = 90.0
RESTART_S = 90.0


@pytest.fixture
def five(backends: RunningBackends, tmp_path: Path) -> Iterator[ClusterProcesses]:
    names = [f"s{number}" for number in range(1, 6)]
    cluster = ClusterProcesses(
        tmp_path / "five", backends, names, lease_s=LEASE_S, restart_s=RESTART_S
    )
    try:
        cluster.start()
        cluster.wait_settled()
        yield cluster
    finally:
        cluster.close()


def leases(load: Traffic, server: str) -> dict[str, list[int]]:
    """Partitions by worker of the steady group."""
    client = RawClient(load.cluster.servers[server].port)
    request = idl("consumer").QueryWorkerRequest(
        consumerGroup=GROUP,
        topicTalosResourceName=idl("topic").TopicTalosResourceName(load.resource),
    )
    try:
        assigned = client.call("consumer", "queryWorker", request).workerMap
    finally:
        client.close()
    return {worker: sorted(partitions) for worker, partitions in assigned.items()}


def openings_of_others(cluster: ClusterProcesses, resource: str, but: str) -> dict[str, int]:
    """How many partitions each server has opened for writing, except one."""
    opened = cluster.openings(resource)
    return {name: count for name, count in opened.items() if name != but}


def wait_shared(load: Traffic, server: str) -> dict[str, list[int]]:
    """Wait until the workers hold every partition, and the same ones for a while."""
    deadline = time.monotonic() + JOIN_TIMEOUT_S
    before: dict[str, list[int]] = {}
    since = time.monotonic()
    while True:
        now = leases(load, server)
        held = sorted(partition for partitions in now.values() for partition in partitions)
        if now != before or held != list(range(PARTITIONS)) or not all(now.values()):
            before, since = now, time.monotonic()
        elif time.monotonic() - since > 4 and len(now) == WORKERS:
            return now
        assert time.monotonic() < deadline, f"the group does not settle: {now}"
        time.sleep(0.3)


def test_a_rolling_restart_moves_nothing_and_rebalances_nobody(
    five: ClusterProcesses, tmp_path: Path, full: bool
) -> None:
    with traffic(five, tmp_path / "load", "rolling restart of 5 servers") as load:
        for worker in range(WORKERS):
            load.add_consumer(worker, f"steady-{worker}", GROUP)
        held = wait_shared(load, "s1")
        takings = load.takings()
        owners = five.owners(load.resource)
        for _ in range(ROUNDS_FULL if full else 1):
            for name in five.names:
                before = openings_of_others(five, load.resource, name)
                five.stop(name)
                five.start(name)
                load.wait_progress()
                five.wait_settled()
                after = openings_of_others(five, load.resource, name)
                assert after == before, f"others served partitions of {name}"
                assert five.owners(load.resource, name) == owners, f"moved by the restart of {name}"
        assert leases(load, "s1") == held, "consumers were rebalanced"
        assert load.takings() == takings, "consumers were rebalanced and came back"

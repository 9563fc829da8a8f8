"""Servers restarted one after the other, each announced and back in time.

Five of them twice: first their partitions wait for them, then they are lent meanwhile. In
``make test`` it is two of them once, and those of the second one are lent.
"""

import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from tests import tiers
from tests.cluster_load import PARTITIONS, Traffic, traffic
from tests.cluster_processes import ClusterProcesses
from tests.conftest import RunningBackends
from tests.raw_client import RawClient, idl
from tests.waiting import eventually

# Of ``make faults``: 30 restarts of 20 s.
pytestmark = [pytest.mark.backend, pytest.mark.timeout(1_200)]

SERVERS = tiers.size(2, 5)
WAYS = tiers.size(1, 2)  # how often each is restarted
ROUNDS_FULL = 3
WORKERS = 2
STEADY_S = 4.0  # for which a group that has settled stays as it is
GROUP = "steady"
# Both outlast a restart, also on a machine that is busy with other tests.
LEASE_S = 90.0
RESTART_S = 90.0


@pytest.fixture
def restarted(backends: RunningBackends, tmp_path: Path) -> Iterator[ClusterProcesses]:
    names = [f"s{number}" for number in range(1, SERVERS + 1)]
    cluster = ClusterProcesses(
        tmp_path / "restarted", backends, names, lease_s=LEASE_S, restart_s=RESTART_S
    )
    if not tiers.WHOLE:
        cluster.lend(names[-1])
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


def openings_of_others(
    cluster: ClusterProcesses, resource: str, owners: dict[int, str]
) -> dict[tuple[str, int], int]:
    """How often servers opened partitions for writing that they do not own."""
    opened = cluster.openings(resource).items()
    return {(name, number): count for (name, number), count in opened if name != owners[number]}


def wait_shared(load: Traffic, server: str) -> dict[str, list[int]]:
    """Wait until the workers hold every partition, and the same ones for a while."""
    shared: dict[str, list[int]] = {}
    since_s = time.monotonic()

    def steady() -> bool:
        nonlocal shared, since_s
        now = leases(load, server)
        held = sorted(partition for partitions in now.values() for partition in partitions)
        if now != shared or held != list(range(PARTITIONS)) or not all(now.values()):
            shared, since_s = now, time.monotonic()
        steady_s = time.monotonic() - since_s
        return steady_s > STEADY_S and len(now) == WORKERS

    eventually("the group settles", steady, state=lambda: shared)
    return shared


def silence_s(load: Traffic, since_s: float, until_s: float) -> float:
    """The longest time within a span without an acknowledged put of any partition."""
    acks: dict[int, list[float]] = {partition: [since_s] for partition in range(PARTITIONS)}
    for put in load.history().of("put"):
        if put.ok and since_s < put.ended_s < until_s:
            acks[put.args["partition"]].append(put.ended_s)
    return max(
        later - earlier
        for times in acks.values()
        for earlier, later in pairwise([*sorted(times), until_s])
    )


def test_a_rolling_restart_moves_nothing_and_rebalances_nobody(
    restarted: ClusterProcesses, tmp_path: Path, full: bool
) -> None:
    with traffic(restarted, tmp_path / "load", f"rolling restart of {SERVERS} servers") as load:
        for worker in range(WORKERS):
            load.add_consumer(worker, f"steady-{worker}", GROUP)
        held = wait_shared(load, "s1")
        takings = load.takings()
        owners = restarted.owners(load.resource)
        rounds = ROUNDS_FULL if full else 1
        for turn in range(WAYS * rounds):
            for name in restarted.names:
                lends = restarted.lends(name)
                before = openings_of_others(restarted, load.resource, owners)
                began_s = time.monotonic()
                restarted.stop(name)
                if lends:
                    load.wait_progress()  # others serve what it had before it is back
                if turn == rounds - 1:
                    restarted.lend(name)
                restarted.start(name)
                load.wait_progress()
                restarted.wait_settled()
                ended_s = time.monotonic()
                # How much shorter it is if lent is the bench's to say; this machine may be busy.
                sys.stdout.write(
                    f"\n| restart of {name}, {'lent' if lends else 'waiting'}: silent "
                    f"{silence_s(load, began_s, ended_s):.1f} of {ended_s - began_s:.1f} s\n"
                )
                after = openings_of_others(restarted, load.resource, owners)
                has = name in owners.values()
                assert (after != before) == (lends and has), f"who served what {name} had"
                assert restarted.owners(load.resource, name) == owners, (
                    f"moved by the restart of {name}"
                )
        assert leases(load, "s1") == held, "consumers were rebalanced"
        assert load.takings() == takings, "consumers were rebalanced and came back"

"""Benchmark of a rolling restart: moves of partitions and effects on consumers."""

import contextlib
import time
from collections.abc import Iterator, Mapping

from bench.client import BenchTopic, Client
from bench.cluster_plan import ClusterPlan
from bench.cluster_servers import Cluster, Settings, wait_until
from bench.prober import Prober
from bench.report import Figure, at_most
from bench.sdk_worker import SdkWorker
from opentalos.wire._generated.consumer import CONSUMER_SERVICE, QueryWorkerRequest

SERVERS = ("s1", "s2", "s3", "s4", "s5")
PARTITIONS = 10
WORKERS = 2
GROUP = "steady"
SHARED_TIMEOUT_S = 120.0
QUIET_S = 5.0  # the group is settled after this time without changes
STOP_TIMEOUT_S = 25.0
RESTART_S = 60.0  # "in time"; a server is back in a few seconds unless the machine is busy
LENT_PAUSE_S = 0.5
LEASE_S = 90.0  # against it as the defaults are, 30 to 20: a consumer outlasts its server's restart
# By server: of which process, and how many partitions that opened for writing.
Openings = Mapping[str, tuple[str, int]]


def rolling_restart(plan: ClusterPlan) -> Iterator[Figure]:
    """Both ways of restarting, one after the other."""
    for way in ("wait", "lend"):
        yield from _rolling_restart(plan, way)


def _rolling_restart(plan: ClusterPlan, way: str) -> Iterator[Figure]:
    """Restart five servers one by one, under puts and two consumers of the official SDK."""
    pauses_s: list[float] = []
    away_s: list[float] = []
    moved = 0
    settings: Settings = {
        "cluster": {"restart_s": RESTART_S, "restart": way},
        "group": {"lease_s": LEASE_S},
    }
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster(plan.work, plan.backends, SERVERS, settings))
        topic = cluster.create_topic("restarted", PARTITIONS, durability="synced")
        prober = stack.enter_context(Prober(topic, lambda: cluster.ports))
        workers = [
            stack.enter_context(_worker(plan, cluster, topic, number)) for number in range(WORKERS)
        ]
        leases = _wait_shared(cluster, topic)
        changes = [worker.changes for worker in workers]
        messages = [worker.messages for worker in workers]
        for name in SERVERS:
            owners, opened = cluster.owners(topic), _openings(cluster, name)
            began_s = time.time()
            cluster.servers[name].stop(STOP_TIMEOUT_S)
            cluster.start(name)
            away_s.append(time.time() - began_s)
            if away_s[-1] > RESTART_S:
                raise RuntimeError(f"{name} was not back in time: {away_s[-1]:.0f} s")
            since_s = time.time()
            wait_until(
                lambda since_s=since_s: all(  # type: ignore[misc]
                    prober.first_after(number, since_s) for number in prober.acks
                ),
                f"every partition acknowledges after the restart of {name}",
                SHARED_TIMEOUT_S,
            )
            cluster.wait_settled()
            pauses_s += [
                prober.longest_pause_s(number, began_s, time.time()) for number in prober.acks
            ]
            # What is lent is opened by others, and must be back where it was.
            taken = moved_between(opened, _openings(cluster, name)) if way == "wait" else 0
            now = cluster.owners(topic)
            moved += max(taken, sum(now.get(number) != owner for number, owner in owners.items()))
        time.sleep(QUIET_S)
        if any(now.messages <= before for now, before in zip(workers, messages, strict=True)):
            raise RuntimeError("a consumer was given nothing meanwhile")
        rebalances = sum(worker.changes for worker in workers) - sum(changes)
        rebalances += _leases(cluster, topic) != leases
    yield at_most(f"rolling restart of 5 servers, {way}: partitions moved", "", 0.0, [moved])
    yield at_most("  consumers that took or gave up a partition", "", 0.0, [rebalances])
    yield Figure(name="  a server was away for", unit="s", values=away_s)
    longest, notes = "  longest pause of a partition", {"restart_s": RESTART_S, "lease_s": LEASE_S}
    if way == "lend":
        yield at_most(longest, "s", LENT_PAUSE_S, [max(pauses_s)], **notes)
    else:
        yield Figure(name=longest, unit="s", values=[max(pauses_s)], notes=dict(notes))


def _worker(plan: ClusterPlan, cluster: Cluster, topic: BenchTopic, number: int) -> SdkWorker:
    url = cluster.servers[SERVERS[number]].url
    return SdkWorker(plan.work, url, topic.name, GROUP, f"steady-{number}")


def _leases(cluster: Cluster, topic: BenchTopic) -> dict[str, list[int]]:
    """Partitions by consumer, from the coordinator of the group."""
    request = QueryWorkerRequest(consumerGroup=GROUP, topicTalosResourceName=topic.resource)
    workers = Client(cluster.ports[0]).call(CONSUMER_SERVICE, "queryWorker", request).workerMap
    return {worker: sorted(partitions) for worker, partitions in workers.items()}


def _wait_shared(cluster: Cluster, topic: BenchTopic) -> dict[str, list[int]]:
    """Wait until the consumers share all partitions and stay so for a while."""
    seen: tuple[dict[str, list[int]], float] = ({}, 0.0)

    def shared() -> bool:
        nonlocal seen
        held = _leases(cluster, topic)
        if held != seen[0]:
            seen = (held, time.monotonic())
        everything = sorted(number for partitions in held.values() for number in partitions)
        whole = everything == list(range(PARTITIONS)) and all(held.values())
        return whole and len(held) == WORKERS and time.monotonic() > seen[1] + QUIET_S

    wait_until(shared, "the consumers share the partitions", SHARED_TIMEOUT_S)
    return seen[0]


def moved_between(before: Openings, after: Openings) -> int:
    """The number of partitions opened under a new owner in between.

    Schedule info would overstate moves: while a server is down, the others publish their own
    addresses for its partitions.
    """
    return sum(
        count - (before[name][1] if before.get(name, ("", 0))[0] == incarnation else 0)
        for name, (incarnation, count) in after.items()
    )


def _openings(cluster: Cluster, but: str) -> Openings:
    """Openings by server, except one. Raises: RuntimeError: a server does not reply."""
    servers = [server for server in cluster.status()["servers"] if server["name"] != but]
    if silent := [server["name"] for server in servers if not server["answers"]]:
        raise RuntimeError(f"{silent} did not tell what they opened")
    return {
        server["name"]: (server["incarnation"], server["counters"]["openings"])
        for server in servers
    }

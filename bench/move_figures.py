"""Benchmark of planned moves of partitions."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from bench.client import BenchTopic
from bench.cluster_plan import ClusterPlan
from bench.cluster_servers import Cluster, wait_until
from bench.failover_figures import ACK_TIMEOUT_S, LOOK_S, PARTITIONS, p99, percentile, wait_load
from bench.prober import Prober
from bench.report import Figure

# The log line of a sealed or opened partition: three spans that end at the line.
_SPANS = re.compile(
    r"topic (\S+) partition (\d+) is (sealed|open|recovered) at epoch \d+: "
    r"\w+ in ([\d.]+) s, \w+ in ([\d.]+) s, \w+ in ([\d.]+) s"
)
GOAL_MS = 200.0
_MS = 1e3


@dataclass
class Moves:
    """The measured phases of each moved partition, in ms."""

    pauses_ms: list[float] = field(default_factory=list)
    phases_ms: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, seconds: float) -> None:
        """Add a phase of a partition."""
        self.phases_ms.setdefault(name, []).append(seconds * _MS)


def planned_moves(plan: ClusterPlan) -> Iterator[Figure]:
    """Drain and undrain a server: the longest pause of each moved partition."""
    moves = Moves()
    with Cluster(plan.work, plan.backends) as cluster:
        topic = cluster.create_topic("probed", PARTITIONS, durability="synced")
        with Prober(topic, lambda: cluster.ports) as prober:
            for number in range(plan.drains):
                name = cluster.names[number % len(cluster.names)]
                path = f"/rest/v1/cluster/servers/{name}/drain"
                for method in ("POST", "DELETE"):
                    wait_load(prober)
                    _move(cluster, topic, prober, (method, path, name), moves)
    yield p99("planned move: longest pause of a partition, P99", "ms", GOAL_MS, moves.pauses_ms)
    for name, values in moves.phases_ms.items():
        notes = {"p99_ms": percentile(values, 0.99), "samples": len(values)}
        yield Figure(name=f"  of it: {name}", unit="ms", values=values, notes=dict(notes))


def _move(
    cluster: Cluster, topic: BenchTopic, prober: Prober, call: tuple[str, str, str], moves: Moves
) -> None:
    """A call that moves partitions away from a server or to it."""
    method, path, name = call
    before = cluster.owners(topic)
    draining = method == "POST"
    began_s = time.time()
    cluster.call(method, path)

    def over() -> bool:
        return (name not in cluster.owners(topic).values()) == draining and not _moving(cluster)

    wait_until(over, f"{method} {path} is done", ACK_TIMEOUT_S)
    time.sleep(LOOK_S)  # until the last partition is open
    ended_s = time.time()
    after = cluster.owners(topic)
    spans = _spans(cluster, topic, began_s)
    for number in before:
        if after[number] == before[number]:
            continue
        moves.pauses_ms.append(prober.longest_pause_s(number, began_s, ended_s) * _MS)
        inside = [ack.acked_s for ack in prober.acks[number] if began_s <= ack.acked_s <= ended_s]
        times = pairwise([began_s, *inside, ended_s])
        pause = max(times, key=lambda pair: pair[1] - pair[0])
        if number in spans["sealed"] and number in spans["open"]:
            _add_phases(moves, pause, spans["sealed"][number], spans["open"][number])


def _add_phases(
    moves: Moves, pause: tuple[float, float], sealed: list[float], opened: list[float]
) -> None:
    sealed_s, drain_s, close_s, register_s = sealed
    opened_s, _, state_s, open_s = opened
    moves.add("seen by the former owner", sealed_s - drain_s - close_s - register_s - pause[0])
    moves.add("drain", drain_s)
    moves.add("close", close_s)
    moves.add("seal registered", register_s)
    moves.add("seal seen, claimed, files listed", opened_s - open_s - state_s - sealed_s)
    moves.add("state", state_s)
    moves.add("file made and registered", open_s)
    moves.add("first commit, client", pause[1] - opened_s)


def _spans(
    cluster: Cluster, topic: BenchTopic, began_s: float
) -> dict[str, dict[int, list[float]]]:
    """By kind and partition: wall-clock time of the log line, then its spans."""
    uuid = str(topic.resource.topicTalosResourceName).rsplit("#", 1)[1]
    found: dict[str, dict[int, list[float]]] = {"sealed": {}, "open": {}, "recovered": {}}
    for at_s, text in sorted(cluster.log_lines(began_s)):
        line = _SPANS.match(text)
        if line is not None and line[1] == uuid:
            found[line[3]].setdefault(int(line[2]), [at_s, *map(float, line.group(4, 5, 6))])
    return found


def _moving(cluster: Cluster) -> bool:
    status = cluster.status()
    return bool(status["moving"] or status["unassigned"])

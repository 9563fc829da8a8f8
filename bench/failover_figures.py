"""Benchmark of failover: partitions whose server is killed."""

import re
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.client import BenchTopic
from bench.cluster_plan import ClusterPlan
from bench.cluster_servers import Cluster, wait_until
from bench.prober import Prober
from bench.report import Figure, at_most

PARTITIONS = 9
ACK_TIMEOUT_S = 60.0
LOOK_S = 1.0  # of steady load before each change
_RECOVERED = re.compile(
    r"topic (\S+) partition (\d+) is recovered at epoch \d+: "
    r"claimed in ([\d.]+) s, recovered in ([\d.]+) s, open in ([\d.]+) s"
)
GOAL_S = 4.0
SLOW = Path(__file__).parent / "out" / "slow-kills.log"  # log lines of servers for slow failovers
_PHASES = ("detect", "plan", "claim", "recover", "open", "ack")


@dataclass
class Kills:
    """The measured phases of each partition whose server was killed."""

    whole_s: list[float] = field(default_factory=list)
    phases_s: dict[str, list[float]] = field(default_factory=dict)

    def add(self, phases_s: Mapping[str, float]) -> None:
        """Add the phases of one partition."""
        for name, seconds in phases_s.items():
            self.phases_s.setdefault(name, []).append(seconds)


def kill_of_an_owner(plan: ClusterPlan) -> Iterator[Figure]:
    """kill -9 each server in turn: time to the next acknowledgement on each of its partitions."""
    kills = Kills()
    SLOW.unlink(missing_ok=True)
    with Cluster(plan.work, plan.backends) as cluster:
        topic = cluster.create_topic("probed", PARTITIONS, durability="synced")
        with Prober(topic, lambda: cluster.ports) as prober:
            for number in range(plan.kills):
                victim = cluster.names[number % len(cluster.names)]
                wait_load(prober)
                _kill(cluster, topic, prober, victim, kills)
                cluster.start(victim)
                wait_until(
                    lambda name=victim: (
                        cluster.settled()  # type: ignore[misc]
                        and name in cluster.owners(topic).values()
                    ),
                    f"{victim} has partitions again",
                    ACK_TIMEOUT_S,
                )
    yield p99("kill -9 of an owner: next ack, P99", "s", GOAL_S, kills.whole_s)
    for name in _PHASES:
        if values := kills.phases_s.get(name):
            notes = {"p99_s": percentile(values, 0.99), "samples": len(values)}
            yield Figure(name=f"  of it: {name}", unit="s", values=values, notes=dict(notes))


def _kill(cluster: Cluster, topic: BenchTopic, prober: Prober, victim: str, kills: Kills) -> None:
    mine = [number for number, owner in cluster.owners(topic).items() if owner == victim]
    began_s = time.time()
    cluster.servers[victim].kill()
    wait_until(
        lambda: all(prober.first_after(number, began_s) for number in mine),
        f"every partition of {victim} acknowledges",
        ACK_TIMEOUT_S,
    )
    acked_s = {}
    for number in mine:
        ack = prober.first_after(number, began_s)
        assert ack is not None
        acked_s[number] = ack.acked_s
        kills.whole_s.append(ack.acked_s - began_s)
    lines = sorted(cluster.log_lines(began_s))
    if max(acked_s.values()) > began_s + GOAL_S:
        with SLOW.open("a") as slow:
            print(f"kill of {victim}; seconds since then:", file=slow)
            slow.writelines(f"{at_s - began_s:8.3f} {text}\n" for at_s, text in lines)
    uuid = str(topic.resource.topicTalosResourceName).rsplit("#", 1)[1]
    detected_s = 0.0
    opened: dict[int, tuple[float, list[float]]] = {}
    for at_s, text in lines:
        if text.startswith(f"server {victim} at ") and "refuses connections" in text:
            detected_s = min(detected_s or at_s, at_s)
        elif (found := _RECOVERED.match(text)) and found[1] == uuid:
            opened[int(found[2])] = (at_s, [float(found[place]) for place in (3, 4, 5)])
    moved_s = {
        move["partition"]: move["at_ms"] / 1000
        for move in cluster.status()["recent"]
        if move["source"] == victim and move["topic_uuid"] == uuid
        and move["at_ms"] / 1000 >= began_s
    }  # fmt: skip
    for number in mine:
        if detected_s and number in opened and number in moved_s:
            open_s, (_, recover_s, register_s) = opened[number]
            kills.add(
                {
                    "detect": detected_s - began_s,
                    "plan": moved_s[number] - detected_s,
                    "claim": open_s - recover_s - register_s - moved_s[number],
                    "recover": recover_s,
                    "open": register_s,
                    "ack": acked_s[number] - open_s,
                }
            )


def wait_load(prober: Prober) -> None:
    """Wait until every partition acknowledges, then a little longer."""
    since_s = time.time()
    wait_until(
        lambda: all(prober.first_after(number, since_s) for number in prober.acks),
        "every partition acknowledges",
        ACK_TIMEOUT_S,
    )
    time.sleep(LOOK_S)


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def p99(name: str, unit: str, goal: float, values: Sequence[float]) -> Figure:
    """A figure of the P99; median and maximum are notes."""
    notes = {"median": statistics.median(values), "max": max(values), "samples": len(values)}
    return at_most(name, unit, goal, [percentile(values, 0.99)], **notes)

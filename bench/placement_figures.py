"""Moves and balance of placement; pure computation without servers.

    python -m bench.placement_figures [--quick]

Writes bench/out/placement.json and the picture bench/out/placement.png.
"""

import argparse
import math
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

from bench.report import Figure, at_least, at_most, table, write_json
from opentalos.model.message import PartitionKey
from opentalos.placement.plan import plan
from opentalos.placement.values import Assignment, Candidate, Nodes, Policy, Situation
from opentalos.placement.weights import expected_traffic, propose, variance

OUT = Path(__file__).parent / "out"
SERVERS = 10
PARTITIONS = 2_000
PARTITIONS_PER_TOPIC = 10
DAYS = 30
LEARNED_DAYS = 7  # warm-up: the initial imbalance of the plain ring is gone
MOVED_MAX = 0.02  # of all partitions, a day
DRIFT = 0.1  # sigma of the logarithm of a partition's popularity, a day
BYTES_PER_DAY = 10**15
POLICY = Policy(moves_at_once=PARTITIONS)

Traffic = Mapping[PartitionKey, int]


@dataclass
class Month:
    """Thirty days of one cluster: variance of the following day, and the moves for it."""

    plain: list[float] = field(default_factory=list)
    weighted: list[float] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of each proposal
    last: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})  # loads, plain and weighted
    heaviest: int = 0  # traffic of one partition on the last day

    def lower_by(self, first_day: int = 0) -> float:
        """The reduction of the variance, in percent."""
        return 100 * (1 - sum(self.weighted[first_day:]) / sum(self.plain[first_day:]))


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="Movement and evenness of placement.")
    parser.add_argument("--quick", action="store_true", help="few clusters, to see it work")
    quick = parser.parse_args().quick
    OUT.mkdir(parents=True, exist_ok=True)
    months = []
    for number in range(1 if quick else 5):
        print(f"30 days of cluster {number} ...", file=sys.stderr, flush=True)
        months.append(simulate(number))
    figures = [*weight_figures(months), *movement_figures(2 if quick else 20)]
    draw(months[0], OUT / "placement.png")
    write_json(OUT / "placement.json", figures)
    print(table(figures))
    print("\nwritten to bench/out/placement.json and bench/out/placement.png")
    return 0


def weight_figures(months: Sequence[Month]) -> Iterator[Figure]:
    """Weights from past days, evaluated on the following day; one value per cluster."""
    lower = [month.lower_by() for month in months]
    learned = [month.lower_by(LEARNED_DAYS) for month in months]
    yield at_least("variance across servers, lower by", "%", 90, lower)
    yield Figure(name=f"the same, from day {LEARNED_DAYS + 1}", unit="%", values=learned)
    most = [100 * max(month.moved) / PARTITIONS for month in months]
    yield at_most("partitions moved on the worst day", "%", 100 * MOVED_MAX, most)
    mean = [100 * sum(month.moved) / DAYS / PARTITIONS for month in months]
    yield Figure(name="partitions moved on a mean day", unit="%", values=mean)
    slowest = [max(month.seconds) for month in months]
    yield Figure(name="time of the slowest proposal", unit="s", values=slowest)


def simulate(number: int) -> Month:
    """Zipf traffic (s = 1) with drift: each day every popularity has a random factor."""
    keys = keys_of(number)
    days = list(traffic_of(keys, random.Random(number)))
    servers = {f"server-{number}-{place}": True for place in range(SERVERS)}
    plain = assign(keys, servers)
    now, month = plain, Month()
    for day in range(DAYS):
        began_s = time.perf_counter()
        expected = expected_traffic(days[: day + 1])
        proposal = propose(expected, now.ring, now.owners, int(MOVED_MAX * PARTITIONS))
        month.seconds.append(time.perf_counter() - began_s)
        after = assign(keys, servers, now, proposal.weights)
        month.moved.append(len(moved(now, after)))
        now, judged = after, days[day + 1]
        month.last = (loads(judged, plain), loads(judged, now))
        month.plain.append(variance(month.last[0]))
        month.weighted.append(variance(month.last[1]))
    month.heaviest = max(days[-1].values())
    return month


def traffic_of(keys: Sequence[PartitionKey], lots: random.Random) -> Iterator[Traffic]:
    """Traffic by day; one more day than simulated, for the evaluation of the last one."""
    harmonic = sum(1 / rank for rank in range(1, len(keys) + 1))
    by_rank = [round(BYTES_PER_DAY / rank / harmonic) for rank in range(1, len(keys) + 1)]
    popularity = [1 / rank for rank in range(1, len(keys) + 1)]
    lots.shuffle(popularity)
    for _ in range(DAYS + 1):
        order = sorted(range(len(keys)), key=lambda place: -popularity[place])
        found = {keys[place]: traffic for place, traffic in zip(order, by_rank, strict=True)}
        yield {key: found[key] for key in keys}
        popularity = [share * math.exp(lots.gauss(0, DRIFT)) for share in popularity]


def movement_figures(clusters: int) -> Iterator[Figure]:
    """The partitions moved by a join and a leave; one value per server and cluster."""
    joins, leaves, crashes = [], [], []
    for number in range(clusters):
        keys = keys_of(number)
        names = [f"server-{number}-{place}" for place in range(SERVERS)]
        settled = assign(keys, dict.fromkeys(names, True))
        joined = assign(keys, dict.fromkeys([*names, f"server-{number}-new"], True), settled)
        joins.append(len(moved(settled, joined)) * (SERVERS + 1) / PARTITIONS)
        for name in names:
            alive = {other: other != name for other in names}
            left = len(moved(settled, assign(keys, alive, settled)))
            had = sum(owner == name for owner in settled.owners.values())
            leaves.append(left / had)
            crashes.append(left * SERVERS / PARTITIONS)
    yield at_most("a join moves, of a fair share", "x", 1.2, joins)
    yield at_most("a leave moves, of what the server had", "x", 1.2, leaves)
    yield at_most("a leave moves, of a fair share", "x", 1.2, crashes)


def assign(
    keys: Sequence[PartitionKey],
    servers: Mapping[str, bool],
    now: Assignment | None = None,
    weights: Mapping[str, Nodes] | None = None,
) -> Assignment:
    """The plan for servers that are alive (True) or dead, given the published assignment."""
    candidates = {
        name: Candidate(name=name, alive=alive, since_s=0.0) for name, alive in servers.items()
    }
    situation = Situation(
        now_s=1_000.0,
        candidates=candidates,
        partitions=keys,
        owners=now.owners if now else {},
        ring=now.ring if now else {},
        weights=weights or {},
    )
    return plan(situation, POLICY)


def keys_of(number: int) -> list[PartitionKey]:
    """The partitions of topics of this cluster."""
    return [
        PartitionKey(
            f"topic-{number}-{place // PARTITIONS_PER_TOPIC}", place % PARTITIONS_PER_TOPIC
        )
        for place in range(PARTITIONS)
    ]


def moved(before: Assignment, after: Assignment) -> list[PartitionKey]:
    """The number of partitions with another owner."""
    return [key for key, owner in before.owners.items() if after.owners[key] != owner]


def loads(traffic: Traffic, assignment: Assignment) -> dict[str, int]:
    """Traffic by server."""
    found = dict.fromkeys(sorted(assignment.ring), 0)
    for key, amount in traffic.items():
        found[assignment.owners[key]] += amount
    return found


def draw(month: Month, path: Path) -> None:
    """Draw the load per server on the last day, with and without weights, and daily variance."""
    mpl.use("Agg")
    shown, axes = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    bars, days = axes
    places = range(SERVERS)
    total = sum(month.last[0].values())
    for shift, label, found, colour in (
        (-0.2, "equal virtual nodes", month.last[0], "#b0b7c3"),
        (0.2, "weights from past days", month.last[1], "#1f6feb"),
    ):
        heights = [100 * load / total for load in found.values()]
        bars.bar([place + shift for place in places], heights, 0.4, label=label, color=colour)
    bars.axhline(100 / SERVERS, color="#444", linewidth=0.8, linestyle=":", label="fair share")
    bars.axhline(
        100 * month.heaviest / total, color="#c33", linewidth=0.8, linestyle="--",
        label="the heaviest partition alone",
    )  # fmt: skip
    bars.set(title=f"Traffic per server, day {DAYS}", xlabel="server", ylabel="% of all traffic")
    bars.set_xticks(list(places))
    bars.set_ylim(0, 1.4 * bars.get_ylim()[1])  # room for the legend
    bars.legend(fontsize=8)
    numbers = range(1, DAYS + 1)
    scale = (total / 100) ** 2
    days.plot(
        numbers, [variance / scale for variance in month.plain], color="#8a93a3", label="equal"
    )
    days.plot(
        numbers, [variance / scale for variance in month.weighted], color="#1f6feb", label="weights"
    )
    days.set(
        title="Variance across servers, judged on the following day",
        xlabel="day",
        ylabel="(% of all traffic) squared",
        ylim=(0, None),
    )
    days.legend(fontsize=8)
    shown.savefig(path, dpi=120)
    plt.close(shown)


if __name__ == "__main__":
    sys.exit(main())

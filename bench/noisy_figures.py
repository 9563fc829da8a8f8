"""What noisy neighbours cost a victim of another tenant: latency, errors, memory of the server."""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.client import Key, new_tenant
from bench.noisy.attacker import Ports, ports_of
from bench.noisy.attacking import ATTACKING_S, Seen, attacking
from bench.noisy.bare_listener import bare_listener
from bench.noisy.behaviours import BEHAVIOURS, prepare, unexpected
from bench.noisy.victim import Victim
from bench.plan import Plan
from bench.report import Figure, at_least, at_most
from bench.server import ServerProcess

GOAL = 2.0  # times the P99 of the victim beside the same attack on a listener that does nothing
SHARE_GOAL = 80.0  # percent of its puts that a victim completes in time
ROUNDS_PER_S = 50  # of the victim
SECONDS_MAX = 3  # of a round and case: 42 cases of 5 rounds take three quarters of an hour
WARM_S = 1.0
NICER = 9  # steps: on few processors the attacker's own work is not what is measured
QUIET_S = 0.5  # for what an attack leaves behind


@dataclass
class _Beside:
    """What the victim saw in each round beside one kind of attack; times in milliseconds."""

    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    get_p99: list[float] = field(default_factory=list)
    share: list[float] = field(default_factory=list)  # percent of puts in time

    def note(self, victim: Victim, share: float) -> None:
        """A round ended."""
        self.p50.append(_ms(victim.put_s, 50))
        self.p99.append(_ms(victim.put_s, 99))
        self.get_p99.append(_ms(victim.get_s, 99))
        self.share.append(100 * share)


def noisy(plan: Plan) -> Iterator[Figure]:
    """Two rows per behaviour, each on a fresh server: in each round the victim beside the attacker,
    and beside the same attacker of a listener that takes its bytes and does nothing."""
    with bare_listener() as bare:
        for behaviour in BEHAVIOURS:
            with ServerProcess(plan.folder("noisy")) as server:
                attacker = new_tenant(server.port, "mallory")
                prepare(server, attacker)
                victim = Victim(server.port, new_tenant(server.port, "alice"), ROUNDS_PER_S)
                yield from _Case(behaviour.name, server, attacker, victim, bare).figures(plan)
                victim.close()


@dataclass
class _Case:
    name: str
    server: ServerProcess
    attacker: Key
    victim: Victim
    bare_port: int

    def figures(self, plan: Plan) -> Iterator[Figure]:
        """Latency and share of completed puts, one value for each round."""
        victim, seconds = self.victim, min(plan.seconds, SECONDS_MAX)
        victim.run(WARM_S)
        victim.start_over()
        alone, beside, bare = _Beside(), _Beside(), _Beside()
        alone.note(victim, victim.run(seconds))
        nowhere = Ports(self.bare_port, self.bare_port, self.server.port)
        seen, server_s = Seen(), 0.0
        for _ in range(plan.latency_repeats):
            self._round(bare, nowhere, seconds)
            server_s -= self.server.cpu_s()
            found = self._round(beside, ports_of(self.server), seconds)
            server_s += self.server.cpu_s()
            seen.statuses.update(found.statuses)
            seen.cpu_s += found.cpu_s
            time.sleep(QUIET_S)
        ratios = [ours / theirs for ours, theirs in zip(beside.p99, bare.p99, strict=True)]
        gets = [ours / theirs for ours, theirs in zip(beside.get_p99, bare.get_p99, strict=True)]
        attacked_s = plan.latency_repeats * (seconds + ATTACKING_S)
        median = statistics.median
        yield at_most(
            f"P99 of puts beside: {self.name}",
            "x bare",
            GOAL,
            ratios,
            get_x_bare=median(gets),
            P50_ms_alone=alone.p50[0],
            P50_ms_bare=median(bare.p50),
            P50_ms=median(beside.p50),
            P99_ms_alone=alone.p99[0],
            P99_ms_bare=median(bare.p99),
            P99_ms=median(beside.p99),
            errors=float(len(victim.errors)),
            lost=float(victim.missing()),
            attacks=float(sum(seen.statuses.values())),
            attacker_cpu_percent=100 * seen.cpu_s / attacked_s,
            server_cpu_percent=100 * server_s / attacked_s,
            unexpected=float(bool(unexpected(self.name, seen.statuses))),
            peak_MiB=float(self.server.peak_rss_bytes() >> 20),
        )
        name = f"puts completed beside: {self.name}"
        yield at_least(name, "%", SHARE_GOAL, beside.share, bare=median(bare.share))

    def _round(self, beside: _Beside, ports: Ports, seconds: float) -> Seen:
        """From when the attacker has started."""
        victim, until_s = self.victim, seconds + ATTACKING_S
        with attacking(self.name, ports, self.attacker, until_s, nicer=NICER) as seen:
            victim.run(ATTACKING_S)
            victim.start_over()
            beside.note(victim, victim.run(seconds))
        return seen


def _ms(values_s: list[float], percent: int) -> float:
    """A percentile in milliseconds; infinite without a value."""
    ordered = sorted(values_s)
    return ordered[(len(ordered) - 1) * percent // 100] * 1e3 if ordered else float("inf")

"""What noisy neighbours cost a victim of another tenant: latency, errors, memory of the server."""

from collections.abc import Iterator

from bench.client import Key, new_tenant
from bench.noisy.attacking import ATTACKING_S, attacking
from bench.noisy.behaviours import BEHAVIOURS, prepare, unexpected
from bench.noisy.victim import Victim
from bench.plan import Plan
from bench.report import Figure, at_most
from bench.server import ServerProcess

GOAL = 2.0  # times the P99 of the victim alone
WARM_S = 1.0


def noisy(plan: Plan) -> Iterator[Figure]:
    """One row per behaviour, each on a fresh server: the victim beside it against it alone."""
    for behaviour in BEHAVIOURS:
        with ServerProcess(plan.folder("noisy")) as server:
            attacker = new_tenant(server.port, "mallory")
            prepare(server.port, attacker)
            victim = Victim(server.port, new_tenant(server.port, "alice"))
            yield _beside(behaviour.name, server, attacker, victim, plan.seconds)
            victim.close()


def _beside(
    name: str, server: ServerProcess, attacker: Key, victim: Victim, seconds: int
) -> Figure:
    victim.run(WARM_S)
    victim.start_over()
    victim.run(seconds)
    alone_ms = _ms(victim.put_s, 50), _ms(victim.put_s, 99)
    alone_get_ms = _ms(victim.get_s, 99)
    victim.start_over()
    with attacking(name, server.port, attacker, seconds + ATTACKING_S) as seen:
        victim.run(ATTACKING_S)  # the attacker starts
        victim.start_over()
        victim.run(seconds)
    return at_most(
        f"P99 of puts beside: {name}",
        "x alone",
        GOAL,
        [_ms(victim.put_s, 99) / alone_ms[1]],
        P50_ms_alone=alone_ms[0],
        P50_ms=_ms(victim.put_s, 50),
        P99_ms_alone=alone_ms[1],
        P99_ms=_ms(victim.put_s, 99),
        get_P99_ms_alone=alone_get_ms,
        get_P99_ms=_ms(victim.get_s, 99),
        errors=float(len(victim.errors)),
        lost=float(victim.missing()),
        attacks=float(sum(seen.values())),
        unexpected=float(bool(unexpected(name, seen))),
        peak_MiB=float(server.peak_rss_bytes() >> 20),
    )


def _ms(values_s: list[float], percent: int) -> float:
    """A percentile in milliseconds; infinite without a value."""
    ordered = sorted(values_s)
    return ordered[(len(ordered) - 1) * percent // 100] * 1e3 if ordered else float("inf")

"""What noisy neighbours cost a victim of another tenant: latency, errors, memory of the server."""

import time
from collections.abc import Iterator

from bench.client import Key, new_tenant
from bench.noisy.__main__ import BARE
from bench.noisy.attacking import ATTACKING_S, Seen, attacking
from bench.noisy.behaviours import BEHAVIOURS, prepare, unexpected
from bench.noisy.victim import Victim
from bench.plan import Plan
from bench.report import Figure, at_most
from bench.server import ServerProcess

GOAL = 2.0  # times the P99 of the victim alone
ROUNDS_PER_S = 50  # of the victim
WARM_S = 1.0
NICER = 9  # steps: on few processors the attacker's own work is not what is measured
QUIET_S = 1.0  # for what an attack leaves behind


def noisy(plan: Plan) -> Iterator[Figure]:
    """One row per behaviour, each on a fresh server: the victim alone before and after, beside the
    attacker, and beside a process that uses as much of a processor and no server ("bare")."""
    for behaviour in BEHAVIOURS:
        with ServerProcess(plan.folder("noisy")) as server:
            attacker = new_tenant(server.port, "mallory")
            prepare(server.port, attacker)
            victim = Victim(server.port, new_tenant(server.port, "alice"), ROUNDS_PER_S)
            yield _beside(behaviour.name, server, attacker, victim, plan.seconds)
            victim.close()


def _beside(
    name: str, server: ServerProcess, attacker: Key, victim: Victim, seconds: int
) -> Figure:
    victim.run(WARM_S)
    victim.start_over()
    victim.run(seconds / 2)
    alone = victim.put_s, victim.get_s
    server_s = server.cpu_s()
    seen, beside = _with_neighbour(name, server.port, attacker, victim, seconds)
    server_s = server.cpu_s() - server_s
    time.sleep(QUIET_S)
    share = min(100, round(100 * seen.cpu_s / (seconds + ATTACKING_S)))
    _, bare = _with_neighbour(BARE, share, attacker, victim, seconds)
    victim.start_over()
    victim.run(seconds / 2)
    alone = alone[0] + victim.put_s, alone[1] + victim.get_s
    return at_most(
        f"P99 of puts beside: {name}",
        "x alone",
        GOAL,
        [_ms(beside[0], 99) / _ms(alone[0], 99)],
        x_bare=_ms(beside[0], 99) / _ms(bare[0], 99),
        get_x_alone=_ms(beside[1], 99) / _ms(alone[1], 99),
        get_x_bare=_ms(beside[1], 99) / _ms(bare[1], 99),
        P50_ms_alone=_ms(alone[0], 50),
        P50_ms_bare=_ms(bare[0], 50),
        P50_ms=_ms(beside[0], 50),
        P99_ms_alone=_ms(alone[0], 99),
        P99_ms_bare=_ms(bare[0], 99),
        P99_ms=_ms(beside[0], 99),
        get_P99_ms_alone=_ms(alone[1], 99),
        get_P99_ms_bare=_ms(bare[1], 99),
        get_P99_ms=_ms(beside[1], 99),
        errors=float(len(victim.errors)),
        lost=float(victim.missing()),
        attacks=float(sum(seen.statuses.values())),
        attacker_cpu_percent=float(share),
        server_cpu_percent=100 * server_s / (seconds + ATTACKING_S),
        unexpected=float(bool(unexpected(name, seen.statuses))),
        peak_MiB=float(server.peak_rss_bytes() >> 20),
    )


def _with_neighbour(
    name: str, port: int, attacker: Key, victim: Victim, seconds: int
) -> tuple[Seen, tuple[list[float], list[float]]]:
    """Latencies of puts and gets beside the process, from when it has started."""
    with attacking(name, port, attacker, seconds + ATTACKING_S, nicer=NICER) as seen:
        victim.run(ATTACKING_S)
        victim.start_over()
        victim.run(seconds)
        times = victim.put_s, victim.get_s
    return seen, times


def _ms(values_s: list[float], percent: int) -> float:
    """A percentile in milliseconds; infinite without a value."""
    ordered = sorted(values_s)
    return ordered[(len(ordered) - 1) * percent // 100] * 1e3 if ordered else float("inf")

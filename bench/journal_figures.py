"""Recovery of a full journal after kill -9, on the local disk."""

import time
from collections.abc import Iterator
from pathlib import Path

from bench import load
from bench.arena import Contender
from bench.builds import ROOT, Build, fastest_package
from bench.plan import Plan
from bench.report import Figure, at_most
from opentalos.model.limits import LogLimits

PARTITIONS = 1_000
CONNECTIONS = 256
FULL_SHARE = 0.9  # of journal_bytes_max; at all of it segments are written out
FILL_TIMEOUT_S = 90.0
MEBI = 1 << 20


def journal_recovery(plan: Plan) -> Iterator[Figure]:
    """Fill the journal, kill the server; time until the next one is ready, and until all partitions
    answer with all that was acknowledged."""
    build = Build("journal", fastest_package(ROOT), {"log": {"journal": "on"}})
    binary = load.build_open_loop(plan.work)
    partitions = PARTITIONS // plan.recovery_share
    ready_s, served_s, held = [], [], 0.0
    for _ in range(plan.repeats):
        data = plan.folder("journal")
        with build.server(data) as server:
            contender = Contender(build, server, binary)
            contender.create(partitions, "synced")
            wanted = LogLimits().journal_bytes_max * FULL_SHARE / plan.recovery_share
            until_s = time.monotonic() + FILL_TIMEOUT_S
            while journal_bytes(data) < wanted and time.monotonic() < until_s:
                contender.run(CONNECTIONS, rate=0.0, seconds=1)
            acknowledged, held = contender.stored(), journal_bytes(data) / MEBI
            server.kill()
            server.start()
            ready_s.append(server.ready_s)
            began_s = time.perf_counter()
            found = contender.stored()
            served_s.append(server.ready_s + time.perf_counter() - began_s)
            if found < acknowledged:
                raise RuntimeError(f"{acknowledged} messages were stored, {found} recovered")
    notes = {"journal_MiB": held, "partitions": float(partitions)}
    yield at_most("full journal, kill -9: to ready", "s", 2.0, ready_s, **notes)
    yield Figure(
        name="  the same, until all partitions answered", unit="s", values=served_s, notes={**notes}
    )


def journal_bytes(data: Path) -> int:
    """Of the journal's files; one may be deleted meanwhile."""
    total = 0
    for path in data.rglob("*.jnl"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total

"""``make bench-cluster``: benchmarks of a cluster over real backends."""

import argparse
import http.client
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import (
    addressing_figures,
    cluster_puts,
    failover_figures,
    load,
    move_figures,
    restart_figures,
    takeover_figures,
)
from bench.backends import running_backends
from bench.cluster_plan import ClusterPlan, quick
from bench.kafka import moves
from bench.load import MissingTool
from bench.report import Figure, table, write_json
from opentalos.backends.places import BackendError

OUT = Path(__file__).parent / "out" / "cluster.json"
GROUPS: dict[str, Callable[[ClusterPlan], Iterator[Figure]]] = {
    "group-commit": cluster_puts.group_commit_gain,
    "flushed": cluster_puts.flushed_puts,
    "flushed-many": cluster_puts.flushed_over_many,
    "kill": failover_figures.kill_of_an_owner,
    "moves": move_figures.planned_moves,
    "kafka-moves": moves.planned_moves,
    "restart": restart_figures.rolling_restart,
    "addressing": addressing_figures.addressing,
    "takeover": takeover_figures.many_taken_over,
    "idle": takeover_figures.idle_writers,
}
PLACEMENT = "placement"  # needs no backend


def main() -> int:
    """Exit with 0 if everything was measured, whether or not goals were met."""
    names = [*GROUPS, PLACEMENT]
    parser = argparse.ArgumentParser(description="Benchmarks of a cluster on this machine.")
    parser.add_argument("group", nargs="*", help=f"some of: {', '.join(names)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="short runs, to see it work")
    arguments = parser.parse_args()
    if unknown := set(arguments.group) - set(names):
        parser.error(f"unknown group {sorted(unknown)}; known: {', '.join(names)}")
    chosen = arguments.group or names
    OUT.parent.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    if PLACEMENT in chosen:
        command = [sys.executable, "-m", "bench.placement_figures"]
        done = subprocess.run([*command, *(["--quick"] if arguments.quick else [])])
        failed += [PLACEMENT] if done.returncode else []
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stops the child processes too
    groups = [name for name in chosen if name != PLACEMENT]
    if groups:
        try:
            failed += _measure(groups, short=arguments.quick)
        except (MissingTool, BackendError) as error:
            print(error, file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130  # as a shell reports Ctrl-C
    return 1 if failed else 0


def _measure(groups: list[str], *, short: bool) -> list[str]:
    """Print and write the figures; return the groups that failed."""
    figures: list[Figure] = []
    failed = []
    with (
        tempfile.TemporaryDirectory(dir=OUT.parent, prefix="work-") as work,
        running_backends(_say) as backends,
    ):
        folder = Path(work)
        plan = ClusterPlan(work=folder, backends=backends, binary=load.build_open_loop(folder))
        for name in groups:
            _say(f"measuring {name} ...")
            try:
                for figure in GROUPS[name](quick(plan) if short else plan):
                    figures.append(figure)
                    _say(table([figure]).splitlines()[-1])
            except (RuntimeError, OSError, http.client.HTTPException) as error:
                failed.append(name)
                _say(f"{name} could not be measured: {error}")
    write_json(OUT, figures)
    print(table(figures))
    print(f"\nwritten to bench/out/{OUT.name}")
    return failed


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

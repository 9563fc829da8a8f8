"""``python -m opentalos.testing [--cluster] SEED [--count N] [--trace]``: replay seeds."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import click

from opentalos.testing.simulation.cluster.storage_worlds import CLUSTER_WORLDS
from opentalos.testing.simulation.history import Operation, dump
from opentalos.testing.simulation.seed_run import (
    ClusterConfig,
    Report,
    WorldConfig,
    run_cluster_seed,
    run_seed,
)
from opentalos.testing.simulation.world.limits import with_journal
from opentalos.testing.simulation.world.storage_worlds import STORAGE_WORLDS


@click.command()
@click.argument("seed", type=int)
@click.option("--cluster", is_flag=True, help="Run several servers with a network between them.")
@click.option(
    "--world",
    default="",
    type=click.Choice(["", *STORAGE_WORLDS, *CLUSTER_WORLDS]),
    help="A storage world.",
)
@click.option("--journal", is_flag=True, help="Servers write a shared journal.")
@click.option("--count", default=1, show_default=True, help="Number of seeds, from SEED upwards.")
@click.option("--chaos-s", default=None, type=float, help="Virtual seconds with faults.")
@click.option("--trace", is_flag=True, help="Print every operation and fault in order.")
@click.option("--history", type=click.Path(path_type=Path), help="Write the history to this file.")
def main(
    seed: int,
    cluster: bool,
    world: str,
    journal: bool,
    count: int,
    chaos_s: float | None,
    trace: bool,
    history: Path | None,
) -> None:
    """Run whole servers in virtual time from SEED and check the history of their clients."""
    config = STORAGE_WORLDS.get(world, WorldConfig())
    cluster_config = CLUSTER_WORLDS.get(world, ClusterConfig())
    cluster = cluster or world in CLUSTER_WORLDS
    if journal:
        config = replace(config, log=with_journal(config.log))
        cluster_config = replace(cluster_config, log=with_journal(cluster_config.log))
    if chaos_s is not None:
        config = replace(config, chaos_s=chaos_s)
        cluster_config = replace(cluster_config, chaos_s=chaos_s)
    began_s, failed = time.monotonic(), 0
    for number in range(seed, seed + count):
        if cluster:
            report = run_cluster_seed(number, cluster_config)
        else:
            report = run_seed(number, config)
        failed += not report.ok
        if trace:
            print_trace(report)
        if history is not None:
            with history.open("w") as sink:
                dump(report.history, sink)
        if count == 1 or not report.ok:
            click.echo(str(report))
    took_s = time.monotonic() - began_s
    seeds = "1 seed" if count == 1 else f"{count} seeds"
    click.echo(f"{seeds}, {failed} failed, {count / took_s:.1f} seeds/s")
    sys.exit(1 if failed else 0)


def print_trace(report: Report) -> None:
    """Every operation and fault in order."""
    history = report.history
    lines = [(note.at_s, f"{note.kind} {dict(note.args)}") for note in history.notes]
    for operation in history.operations:
        lines.append((operation.began_s, f"> #{operation.number} {_call(operation)}"))
        if operation.ended_s != float("inf"):
            lines.append((operation.ended_s, f"< {operation}"))
    for at_s, text in sorted(lines, key=lambda line: line[0]):
        click.echo(f"{at_s:10.4f} {text}")


def _call(operation: Operation) -> str:
    return f"{operation.process} {operation.action} {dict(operation.args)}"


if __name__ == "__main__":
    main()

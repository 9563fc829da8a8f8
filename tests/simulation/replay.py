"""``python -m tests.simulation.replay "MUTANT NAME" SEED [--real] [--trace]``: a seed of a mutant.

The world is the mutant's own, which no option of ``python -m opentalos.testing`` describes.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import click
import pytest
from tests.simulation.mutants import Mutant

from opentalos.testing.__main__ import print_trace
from opentalos.testing.simulation.cluster.world import ClusterConfig
from opentalos.testing.simulation.seed_run import Report, run_cluster_seed, run_seed


def mutants() -> Mapping[str, Mutant]:
    """All mutants of this folder by name."""
    found: dict[str, Mutant] = {}
    for path in sorted(Path(__file__).parent.glob("*mutants.py")):
        if path.name.startswith("test_"):
            continue
        module = import_module(f"tests.simulation.{path.stem}")
        for name, value in vars(module).items():
            if name.endswith("MUTANTS") and isinstance(value, tuple):
                found |= {mutant.name: mutant for mutant in value}
    return found


def play(mutant: Mutant, seed: int, *, real: bool) -> Report:
    """One seed of the mutant's world, with the mutant's code or with the real one."""
    with pytest.MonkeyPatch.context() as patch:
        if not real:
            mutant.apply(patch)
        if isinstance(mutant.config, ClusterConfig):
            return run_cluster_seed(seed, mutant.config)
        return run_seed(seed, mutant.config)


def command(mutant: Mutant, seed: int, *, real: bool) -> str:
    """What replays it."""
    option = " --real" if real else ""
    return f'replay: python -m tests.simulation.replay "{mutant.name}" {seed}{option} --trace'


@click.command()
@click.argument("name")
@click.argument("seed", type=int)
@click.option("--real", is_flag=True, help="The real code in the mutant's world.")
@click.option("--trace", is_flag=True, help="Print every operation and fault in order.")
def main(name: str, seed: int, real: bool, trace: bool) -> None:
    """Play SEED of the mutant NAME."""
    known = mutants()
    if name not in known:
        raise click.BadParameter(f"no mutant {name!r}; known are {', '.join(sorted(known))}")
    report = play(known[name], seed, real=real)
    if trace:
        print_trace(report)
    click.echo(str(report).partition("\nreplay: ")[0])
    sys.exit(0 if report.ok else 1)


if __name__ == "__main__":
    main()

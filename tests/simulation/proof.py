"""What makes a mutant count: several seeds catch it by name, and the real code passes them.

Of them ``make check`` plays the first one, ``make test-all`` all three.

Tests that need the same run of the real code share it (``played``).
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import pytest
from tests import tiers
from tests.simulation import catching_seeds
from tests.simulation.mutants import Mutant
from tests.simulation.replay import command

from opentalos.testing.simulation.seed_run import Report
from opentalos.testing.simulation.world.world import WorldConfig

ConfigT = TypeVar("ConfigT", bound=WorldConfig)

CATCHES = 3 if catching_seeds.KEEPS else tiers.size(1, 3)
MUTANTS_MIN = 12  # of one kind of world


def prove_caught(
    mutant: Mutant,
    config: ConfigT,
    run: Callable[[int, ConfigT | None], Report],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fail unless enough seeds show one of the mutant's names; stops at the last one needed."""
    caught: list[int] = []
    shown: list[str] = []
    with monkeypatch.context() as patch:
        mutant.apply(patch)
        for seed in catching_seeds.in_order(mutant.name):
            report = run(seed, config)
            shown.append(f"{seed}: {sorted(report.names)}")
            if report.names & mutant.names:
                caught.append(seed)
                if len(caught) == CATCHES:
                    break
    replay = command(mutant, 0, real=False)
    assert len(caught) == CATCHES, f"{mutant.name} showed only: {shown}\n{replay}"
    for seed in caught:
        # The world is the mutant's, so the report's own command would replay another.
        problem = played(run, seed, config).problem.partition("\nreplay: ")[0]
        replay = command(mutant, seed, real=True)
        assert not problem, f"the real code fails as well: {problem}\n{replay}"
    catching_seeds.keep(mutant.name, caught)


class Played(NamedTuple):
    """What a seed showed. ``problem``: its anomalies and how to replay it; "": none."""

    problem: str
    kinds: frozenset[str]  # of notes
    outcomes: frozenset[tuple[str, str]]  # action and outcome of operations


@functools.cache
def played(
    run: Callable[[int, ConfigT | None], Report], seed: int, config: ConfigT | None = None
) -> Played:
    """What a seed showed, for all tests of this process that ask; a seed repeats itself exactly."""
    report = run(seed, config)
    return Played(
        problem="" if report.ok else str(report),
        kinds=frozenset(note.kind for note in report.history.notes),
        outcomes=frozenset((each.action, each.outcome.value) for each in report.history.operations),
    )


def check_enough(mutants: Sequence[Mutant]) -> None:
    """Fail unless there are enough mutants, each with a name of its own."""
    assert len(mutants) >= MUTANTS_MIN
    assert len({mutant.name for mutant in mutants}) == len(mutants)

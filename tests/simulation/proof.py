"""What makes a mutant count: several seeds catch it by name, and the real code passes them."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from tests.simulation.mutants import Mutant

from opentalos.testing.simulation.seed_run import Report
from opentalos.testing.simulation.world.world import WorldConfig

ConfigT = TypeVar("ConfigT", bound=WorldConfig)

CATCHES = 3
SEEDS_MAX = 40
MUTANTS_MIN = 12  # of one kind of world


def prove_caught(
    mutant: Mutant,
    config: ConfigT,
    run: Callable[[int, ConfigT], Report],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fail unless enough seeds show one of the mutant's names; stops at the last one needed."""
    caught: list[int] = []
    shown: list[str] = []
    with monkeypatch.context() as patch:
        mutant.apply(patch)
        for seed in range(SEEDS_MAX):
            report = run(seed, config)
            shown.append(f"{seed}: {sorted(report.names)}")
            if report.names & mutant.names:
                caught.append(seed)
                if len(caught) == CATCHES:
                    break
    assert len(caught) == CATCHES, f"{mutant.name} showed only: {shown}"
    for seed in caught:
        report = run(seed, config)
        assert report.ok, f"the real code fails as well: {report}"


def check_enough(mutants: Sequence[Mutant]) -> None:
    """Fail unless there are enough mutants, each with a name of its own."""
    assert len(mutants) >= MUTANTS_MIN
    assert len({mutant.name for mutant in mutants}) == len(mutants)

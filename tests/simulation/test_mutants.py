"""Each mutant is caught by several seeds, under its proper name, which the real code passes."""

import pytest
from tests.simulation.mutants import MUTANTS, Mutant

from opentalos.testing.simulation import run_seed

CATCHES = 3
SEEDS_MAX = 40


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
@pytest.mark.timeout(120)  # it stops at the third catch; a busy machine needs its time
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    caught: list[int] = []
    shown: list[str] = []
    with monkeypatch.context() as patch:
        mutant.apply(patch)
        for seed in range(SEEDS_MAX):
            report = run_seed(seed, mutant.config)
            shown.append(f"{seed}: {sorted(report.names)}")
            if report.names & mutant.names:
                caught.append(seed)
                if len(caught) == CATCHES:
                    break
    assert len(caught) == CATCHES, f"{mutant.name} showed only: {shown}"
    for seed in caught:
        report = run_seed(seed, mutant.config)
        assert report.ok, f"the real code fails as well: {report}"


def test_there_are_enough_mutants_with_names_of_their_own() -> None:
    assert len(MUTANTS) >= 12
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)

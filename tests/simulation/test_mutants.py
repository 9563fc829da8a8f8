"""Each mutant is caught by several seeds, under its proper name, which the real code passes."""

import pytest
from tests.simulation.group_mutants import GROUP_MUTANTS
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.proof import check_enough, prove_caught

from opentalos.testing.simulation.seed_run import run_seed


@pytest.mark.parametrize("mutant", [*MUTANTS, *GROUP_MUTANTS], ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_caught(mutant, mutant.config, run_seed, monkeypatch)


def test_there_are_enough_mutants_with_names_of_their_own() -> None:
    check_enough(MUTANTS)

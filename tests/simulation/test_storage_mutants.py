"""Each mutant of storage in trouble is caught by several seeds of its world, by name."""

import pytest
from tests.simulation.mutants import Mutant
from tests.simulation.proof import check_enough, prove_caught
from tests.simulation.storage_mutants import STORAGE_MUTANTS

from opentalos.testing.simulation.seed_run import run_seed


@pytest.mark.parametrize("mutant", STORAGE_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_caught(mutant, mutant.config, run_seed, monkeypatch)


def test_there_are_enough_mutants_with_names_of_their_own() -> None:
    check_enough(STORAGE_MUTANTS)

"""Each mutant of the shared journal is caught by several seeds, under its proper name."""

import pytest
from tests.simulation.journal_mutants import JOURNAL_CLUSTER_MUTANTS, JOURNAL_MUTANTS
from tests.simulation.mutants import Mutant
from tests.simulation.proof import check_enough, prove_caught

from opentalos.testing.simulation.cluster.world import ClusterConfig
from opentalos.testing.simulation.seed_run import run_cluster_seed, run_seed


@pytest.mark.parametrize("mutant", JOURNAL_MUTANTS, ids=lambda mutant: mutant.name)
@pytest.mark.timeout(120)  # it stops at the third catch; a busy machine needs its time
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_caught(mutant, mutant.config, run_seed, monkeypatch)


@pytest.mark.parametrize("mutant", JOURNAL_CLUSTER_MUTANTS, ids=lambda mutant: mutant.name)
@pytest.mark.timeout(300)  # it stops at the third catch; a busy machine needs its time
def test_a_mutant_of_a_cluster_is_caught_by_name(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(mutant.config, ClusterConfig)
    prove_caught(mutant, mutant.config, run_cluster_seed, monkeypatch)


def test_there_are_enough_mutants_with_names_of_their_own() -> None:
    check_enough([*JOURNAL_MUTANTS, *JOURNAL_CLUSTER_MUTANTS])

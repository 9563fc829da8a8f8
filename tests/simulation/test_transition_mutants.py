"""Each forbidden transition of a log partition is caught by name; see ``transition_mutants``."""

import pytest
from tests.simulation.mutants import Mutant
from tests.simulation.proof import prove_caught
from tests.simulation.transition_mutants import TRANSITION_CLUSTER_MUTANTS, TRANSITION_MUTANTS

from opentalos.testing.simulation.cluster.world import ClusterConfig
from opentalos.testing.simulation.seed_run import run_cluster_seed, run_seed


@pytest.mark.parametrize("mutant", TRANSITION_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_forbidden_transition_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_caught(mutant, mutant.config, run_seed, monkeypatch)


@pytest.mark.parametrize("mutant", TRANSITION_CLUSTER_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_forbidden_transition_in_a_cluster_is_caught(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(mutant.config, ClusterConfig)
    prove_caught(mutant, mutant.config, run_cluster_seed, monkeypatch)

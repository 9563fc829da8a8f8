"""Each mutant of storage that comes back older, shorter or rotten is caught by several seeds."""

import pytest
from tests.simulation.mutants import Mutant
from tests.simulation.older_mutants import OLDER_CLUSTER_MUTANTS, OLDER_MUTANTS
from tests.simulation.proof import prove_caught

from opentalos.testing.simulation.cluster.world import ClusterConfig
from opentalos.testing.simulation.seed_run import run_cluster_seed, run_seed


@pytest.mark.parametrize("mutant", OLDER_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_caught(mutant, mutant.config, run_seed, monkeypatch)


@pytest.mark.parametrize("mutant", OLDER_CLUSTER_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_of_a_cluster_is_caught_by_name(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(mutant.config, ClusterConfig)
    prove_caught(mutant, mutant.config, run_cluster_seed, monkeypatch)


def test_each_anomaly_of_such_storage_has_several_mutants() -> None:
    for name in ("offset-given-twice", "looks-empty", "good-file-deleted"):
        assert sum(name in mutant.names for mutant in OLDER_MUTANTS) >= 3, name
    assert len({mutant.name for mutant in OLDER_MUTANTS}) == len(OLDER_MUTANTS)

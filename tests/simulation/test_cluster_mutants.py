"""Each mutant of a cluster is caught by several seeds, under its proper name."""

import pytest
from tests.simulation.cluster_mutants import (
    CLUSTER_MUTANTS,
    RIVALS,
    ZOMBIES,
    coordinate_every_group,
    notice_nothing,
)
from tests.simulation.mutants import Mutant
from tests.simulation.proof import check_enough, prove_caught

from opentalos.testing.simulation.cluster.world import ClusterConfig
from opentalos.testing.simulation.seed_run import run_cluster_seed

GUARDLESS_SEEDS = 8


@pytest.mark.parametrize("mutant", CLUSTER_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(mutant.config, ClusterConfig)
    prove_caught(mutant, mutant.config, run_cluster_seed, monkeypatch)


def test_fencing_alone_keeps_every_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the mutants break beside the guards: with the guards broken alone, nothing is lost."""
    notice_nothing(monkeypatch)
    for seed in range(GUARDLESS_SEEDS):
        report = run_cluster_seed(seed, ZOMBIES)
        assert report.ok, str(report)


def test_rows_alone_keep_groups_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of coordinators of one group are safe, since every write is a compare-and-set."""
    coordinate_every_group(monkeypatch)
    for seed in range(GUARDLESS_SEEDS):
        report = run_cluster_seed(seed, RIVALS)
        assert report.ok, str(report)


def test_there_are_enough_mutants_with_names_of_their_own() -> None:
    check_enough(CLUSTER_MUTANTS)

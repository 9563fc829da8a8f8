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
from tests.simulation.test_mutants import CATCHES, SEEDS_MAX

from opentalos.testing.cluster_world import ClusterConfig
from opentalos.testing.simulation import run_cluster_seed

GUARDLESS_SEEDS = 8


@pytest.mark.parametrize("mutant", CLUSTER_MUTANTS, ids=lambda mutant: mutant.name)
@pytest.mark.timeout(300)  # it stops at the third catch; a busy machine needs its time
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(mutant.config, ClusterConfig)
    caught: list[int] = []
    shown: list[str] = []
    with monkeypatch.context() as patch:
        mutant.apply(patch)
        for seed in range(SEEDS_MAX):
            report = run_cluster_seed(seed, mutant.config)
            shown.append(f"{seed}: {sorted(report.names)}")
            if report.names & mutant.names:
                caught.append(seed)
                if len(caught) == CATCHES:
                    break
    assert len(caught) == CATCHES, f"{mutant.name} showed only: {shown}"
    for seed in caught:
        report = run_cluster_seed(seed, mutant.config)
        assert report.ok, f"the real code fails as well: {report}"


@pytest.mark.timeout(120)
def test_fencing_alone_keeps_every_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the mutants break beside the guards: with the guards broken alone, nothing is lost."""
    notice_nothing(monkeypatch)
    for seed in range(GUARDLESS_SEEDS):
        report = run_cluster_seed(seed, ZOMBIES)
        assert report.ok, str(report)


@pytest.mark.timeout(120)
def test_rows_alone_keep_groups_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of coordinators of one group are safe, since every write is a compare-and-set."""
    coordinate_every_group(monkeypatch)
    for seed in range(GUARDLESS_SEEDS):
        report = run_cluster_seed(seed, RIVALS)
        assert report.ok, str(report)


def test_there_are_enough_mutants_with_names_of_their_own() -> None:
    assert len(CLUSTER_MUTANTS) >= 12
    assert len({mutant.name for mutant in CLUSTER_MUTANTS}) == len(CLUSTER_MUTANTS)

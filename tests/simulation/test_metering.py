"""Metering: each way in which events and log drift apart is caught by name.

Half of the seeds of test_seeds.py and test_cluster_seeds.py meter as well.
"""

import pytest
from tests.simulation.metering_mutants import METERING_CLUSTER_MUTANTS, METERING_MUTANTS
from tests.simulation.mutants import Mutant
from tests.simulation.proof import prove_caught

from opentalos.testing.simulation.cluster.world import ClusterConfig
from opentalos.testing.simulation.seed_run import run_cluster_seed, run_seed


@pytest.mark.parametrize("mutant", METERING_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_caught(mutant, mutant.config, run_seed, monkeypatch)


@pytest.mark.parametrize("mutant", METERING_CLUSTER_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_of_a_cluster_is_caught_by_name(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(mutant.config, ClusterConfig)
    prove_caught(mutant, mutant.config, run_cluster_seed, monkeypatch)


def test_seeds_meter_across_many_minutes() -> None:
    history = run_seed(1, METERING_MUTANTS[0].config).history
    events = history.noted("usage-event")
    assert len({note.args["minute_ms"] for note in events}) >= 5
    assert len({(note.args["topic"], note.args["partition"]) for note in events}) >= 3

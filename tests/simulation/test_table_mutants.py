"""Tables: each way in which rows and their streams drift apart is caught by name.

A share of the seeds of test_seeds.py and test_cluster_seeds.py has a table as well.
"""

import pytest
from tests.simulation.mutants import Mutant
from tests.simulation.proof import check_enough, prove_caught
from tests.simulation.table_mutants import TABLE_CLUSTER_MUTANTS, TABLE_MUTANTS
from tests.simulation.table_state_mutants import STATE_MUTANTS
from tests.simulation.table_worlds import CALM_ROWS

from opentalos.testing.simulation.cluster.world import ClusterConfig
from opentalos.testing.simulation.seed_run import run_cluster_seed, run_seed


@pytest.mark.parametrize("mutant", [*TABLE_MUTANTS, *STATE_MUTANTS], ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_caught(mutant, mutant.config, run_seed, monkeypatch)


@pytest.mark.parametrize("mutant", TABLE_CLUSTER_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_of_a_cluster_is_caught_by_name(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(mutant.config, ClusterConfig)
    prove_caught(mutant, mutant.config, run_cluster_seed, monkeypatch)


def test_there_are_enough_mutants_with_names_of_their_own() -> None:
    check_enough((*TABLE_MUTANTS, *STATE_MUTANTS, *TABLE_CLUSTER_MUTANTS))


def test_a_seed_changes_rows_in_every_way_and_publishes_it() -> None:
    history = run_seed(1, CALM_ROWS).history
    done = [each for each in history.of("mutate") if each.ok and each.result["success"]]
    assert {each.args["operation"] for each in done} == {"put", "increment", "remove"}
    published = [change for each in history.of("changes") for _, change in each.result["changes"]]
    assert {change["kind"] for change in published} == {"put", "increment", "delete"}
    assert any(each.ok for each in history.of("mark"))
    assert any(each.args.get("condition") for each in done)

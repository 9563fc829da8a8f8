"""Records of Kafka's producers, and deleted beginnings of logs, in the simulated world.

The storage worlds ``records`` and ``moved-records`` play them; see test_storage_worlds.py.
"""

import functools
from collections import Counter

import pytest
from tests.simulation.assigned_mutants import ASSIGNED_MUTANTS
from tests.simulation.mutants import Mutant
from tests.simulation.proof import check_enough, prove_caught
from tests.simulation.record_mutants import RECORD_CLUSTER_MUTANTS, RECORD_MUTANTS

from opentalos.testing.simulation.cluster.storage_worlds import ASSIGNED_MEMBERS, MOVED_RECORDS
from opentalos.testing.simulation.cluster.world import ClusterConfig
from opentalos.testing.simulation.history import History
from opentalos.testing.simulation.seed_run import run_cluster_seed, run_seed, run_storage_seed


@pytest.mark.parametrize("mutant", RECORD_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_caught(mutant, mutant.config, run_seed, monkeypatch)


@pytest.mark.parametrize(
    "mutant", RECORD_CLUSTER_MUTANTS + ASSIGNED_MUTANTS, ids=lambda mutant: mutant.name
)
def test_a_mutant_of_a_cluster_is_caught_by_name(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(mutant.config, ClusterConfig)
    prove_caught(mutant, mutant.config, run_cluster_seed, monkeypatch)


@functools.cache
def history_of(seed: int, config: ClusterConfig) -> History:
    """Of a run that several tests look at."""
    return run_cluster_seed(seed, config).history


def test_there_are_enough_mutants_with_names_of_their_own() -> None:
    check_enough(RECORD_MUTANTS)


def test_seeds_cover_what_matters() -> None:
    """Batches are repeated behind others, and beginnings deleted with every outcome."""
    batches, deletions, refused = Counter[str](), Counter[str](), 0
    for seed in range(8):  # few deletions end without an answer
        history = run_storage_seed(seed, "records").history
        for put in history.of("put"):
            if "lane" in put.args:
                batches[put.outcome.value] += 1
                refused += put.error.startswith("SequenceGap")
        deletions.update(trim.outcome.value for trim in history.of("trim"))
        assert any(read.args.get("quiet") for read in history.of("read"))
    assert min(batches["ok"], batches["fail"], batches["unknown"], refused) > 20
    assert deletions["ok"] > 20
    assert deletions["unknown"] > 0


def test_members_commit_and_former_ones_are_refused() -> None:
    commits = [
        commit
        for seed in range(3)
        for commit in history_of(seed, MOVED_RECORDS).of("member-commit")
    ]
    assert sum(commit.ok for commit in commits) > 20
    assert any(commit.error == "not a member any more" for commit in commits)


def test_clients_follow_leaders_through_many_epochs() -> None:
    epochs, reads, refused = 0, 0, set[str]()
    for seed in range(3):
        history = history_of(seed, MOVED_RECORDS)
        epochs += len({each.result["epoch"] for each in history.of("leaders") if each.ok})
        for read in history.of("read"):
            if "epoch" in read.args:
                reads += read.ok
                refused.add(read.error.partition(":")[0])
    assert epochs > 6
    assert reads > 50
    assert {"NotOwner", "LeaderEpochFenced"} <= refused


def test_assigned_members_are_replaced_and_commit_too_late() -> None:
    refused, given, commits = Counter[str](), set[tuple[str, int]](), 0
    for seed in range(6):
        history = run_cluster_seed(seed, ASSIGNED_MEMBERS).history
        for beat in history.of("assigned-beat"):
            refused[beat.error] += 1
            assignment = beat.result.get("assignment") or ()
            given |= {(beat.process, partition) for partition in assignment}
        for commit in history.of("assigned-commit"):
            refused[commit.error] += 1
            commits += commit.ok
    assert commits > 50
    assert refused["STALE_MEMBER_EPOCH"] > 5
    assert refused["UNKNOWN_MEMBER_ID"] > 5
    assert len(given) == 6, "three members had each of two partitions"

"""Each mutant of the shared journal is caught by several seeds, under its proper name."""

import pytest
from tests.simulation.flushed_mutants import FLUSHED_MUTANTS, MIXED
from tests.simulation.journal_mutants import (
    JOURNAL_CLUSTER_MUTANTS,
    JOURNAL_MUTANTS,
    QUIET,
    measure_no_space,
)
from tests.simulation.mutants import Mutant
from tests.simulation.proof import check_enough, prove_caught

from opentalos.log.journal.journal import Journal
from opentalos.testing.simulation.cluster.world import ClusterConfig
from opentalos.testing.simulation.seed_run import run_cluster_seed, run_seed


@pytest.mark.parametrize(
    "mutant", [*JOURNAL_MUTANTS, *FLUSHED_MUTANTS], ids=lambda mutant: mutant.name
)
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_caught(mutant, mutant.config, run_seed, monkeypatch)


@pytest.mark.parametrize("mutant", JOURNAL_CLUSTER_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_of_a_cluster_is_caught_by_name(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(mutant.config, ClusterConfig)
    prove_caught(mutant, mutant.config, run_cluster_seed, monkeypatch)


def test_unused_partitions_are_recovered_although_nothing_else_reads_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measure_no_space(monkeypatch)
    for seed in range(10):
        assert run_seed(seed, QUIET).ok, seed


def test_flushed_groups_are_in_frames_of_their_own_beside_synced_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds: dict[bool, int] = {}
    real = Journal._write

    async def write(self: Journal, parts: list[bytes], *, synced: bool = True) -> None:
        kinds[synced] = kinds.get(synced, 0) + 1
        await real(self, parts, synced=synced)

    monkeypatch.setattr(Journal, "_write", write)
    for seed in range(3):
        assert run_seed(seed, MIXED).ok, seed
    assert min(kinds[True], kinds[False]) > 50


def test_there_are_enough_mutants_with_names_of_their_own() -> None:
    check_enough([*JOURNAL_MUTANTS, *FLUSHED_MUTANTS, *JOURNAL_CLUSTER_MUTANTS])

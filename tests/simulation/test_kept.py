"""Reports of what is kept: none says too much or is lost, under kills and rivals."""

import pytest
from tests.simulation.kept_mutants import DELETED, KEPT, KEPT_MUTANTS
from tests.simulation.mutants import Mutant
from tests.simulation.proof import prove_caught

from opentalos.testing.simulation.seed_run import run_seed

SEEDS = range(4)


@pytest.mark.parametrize("mutant", KEPT_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_caught(mutant, mutant.config, run_seed, monkeypatch)


def test_seeds_report_and_drop_much() -> None:
    reports = moves = 0
    for seed in SEEDS:
        report = run_seed(seed, KEPT)
        assert report.ok, str(report)
        reports += len(report.history.noted("kept-event"))
        moves += len(report.history.noted("moved-start"))
    assert reports >= 20
    assert moves >= 10


def test_what_is_deleted_is_reported_until_it_is_dropped() -> None:
    """Servers start again between a deletion and the drop of its segments."""
    restarted = 0
    for seed in SEEDS:
        report = run_seed(seed, DELETED)
        assert report.ok, str(report)
        history = report.history
        deleted_s = [each.ended_s for each in history.of("trim") if each.ok]
        dropped_s = [note.at_s for note in history.noted("moved-start")]
        restarted += sum(
            min(deleted_s) < note.at_s < max(dropped_s) for note in history.noted("started")
        )
    assert restarted >= 3

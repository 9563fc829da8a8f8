"""Egress: no read is billed twice, under kills and failed writes; each way to do it is caught."""

import pytest
from tests.simulation.egress_mutants import EGRESS, EGRESS_MUTANTS
from tests.simulation.mutants import Mutant
from tests.simulation.proof import prove_caught

from opentalos.testing.simulation.seed_run import run_seed

SEEDS = range(4)


@pytest.mark.parametrize("mutant", EGRESS_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_caught(mutant, mutant.config, run_seed, monkeypatch)


def test_seeds_report_reads_of_many_minutes_and_starts() -> None:
    events = [
        note.args for seed in SEEDS for note in run_seed(seed, EGRESS).history.noted("egress-event")
    ]
    assert len({event["minute_ms"] for event in events}) >= 5
    assert len({event["source"] for event in events}) >= 5
    assert sum(event["bytes"] for event in events) > 0

"""Encryption at rest under faults: seeds pass, and each way to lose or show messages is caught."""

import pytest
from tests.simulation.encryption_mutants import ENCRYPTION_MUTANTS
from tests.simulation.mutants import Mutant
from tests.simulation.proof import played, prove_caught

from opentalos.testing.simulation.seed_run import run_seed
from opentalos.testing.simulation.world.limits import LOG_LIMITS, with_journal
from opentalos.testing.simulation.world.world import WorldConfig

WORLD = WorldConfig(encrypted=True, tabled=1.0, metered=1.0)
JOURNALED = WorldConfig(encrypted=True, log=with_journal(LOG_LIMITS), tabled=0.0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("config", [WORLD, JOURNALED], ids=["files", "journal"])
def test_encrypted_seeds_keep_every_promise(config: WorldConfig, seed: int) -> None:
    found = played(run_seed, seed, config)
    assert not found.problem


@pytest.mark.parametrize("mutant", ENCRYPTION_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_by_name(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    prove_caught(mutant, mutant.config, run_seed, monkeypatch)

"""Seeds of worlds with tables that found a bug, with what they showed then; see test_seeds.py."""

from dataclasses import replace

import pytest
from tests import tiers
from tests.simulation.table_worlds import GAPPED, RIVALS

from opentalos.testing.simulation.seed_run import run_seed
from opentalos.testing.simulation.stores.faults import WorldFaults
from opentalos.testing.simulation.world.world import WorldConfig

JUMPS = replace(GAPPED, world=WorldFaults(clock_jump=0.6, clock_jump_s=600.0))
DRAWN = WorldConfig(tabled=1.0, messages=False, gapped=1.0, kills=(), expiring=0.0, keyed=0.0)
FOUND = {
    "the clock went back, and changes after a gap got times from before it": (720027, DRAWN),
    "a fenced owner continued after changes that it had not published": (2, RIVALS),
    "a segment with announcements only was rolled repeatedly": (23, JUMPS),
}


@pytest.mark.parametrize("what", FOUND)
def test_a_seed_that_found_a_bug_passes(what: str) -> None:
    seed, config = FOUND[what]
    report = run_seed(seed, config)
    assert report.ok, f"{report}\nonce found: {what}"


def test_seeds_cover_what_matters() -> None:
    """A selection of seeds has seen each kind of table, and a kill at many steps."""
    kinds: set[str] = set()
    views: set[str] = set()
    steps: set[str] = set()
    expiring = 0
    config = WorldConfig(tabled=1.0, messages=False, chaos_s=12.0, gapped=0.6)
    for seed in range(tiers.size(12, 24)):
        history = run_seed(seed, config).history
        kinds |= {note.kind for note in history.notes}
        steps |= {note.args["point"] for note in history.noted("killed-at")}
        for note in history.noted("table"):
            views |= set(note.args["streams"].values())
            expiring += "ttl_ms" in note.args
    assert kinds >= {"killed-at", "topic-stuck", "stream-gap", "table-dropped"}
    assert views == {"MUTATE_LOG", "RECORD_IMAGE", "KEYS_ONLY"}
    assert len(steps) >= 8
    assert expiring >= 2

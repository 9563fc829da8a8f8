"""Whole clusters from a seed: three servers and more, a network that is cut, sessions that lapse.

A failure prints its seed and the command that replays it.
"""

import pytest
from tests import tiers
from tests.simulation.proof import played

from opentalos.testing.simulation.seed_run import ClusterConfig, run_cluster_seed
from opentalos.testing.simulation.world.limits import LOG_LIMITS, with_journal

SEEDS = tiers.size(60, 200)
JOURNALED = ClusterConfig(log=with_journal(LOG_LIMITS))  # every fourth seed
SEEDS_PER_TEST = 5  # a test stays far below the time limit, also on a busy machine

# Seeds that found a bug, with what they showed then; see test_seeds.py. They play as they did then:
# without faults that came later and are drawn apart.
AS_FOUND = ClusterConfig(put_twice=0.0, recover_refused=0.0, metered=0.0, tabled=0.0, lending=False)
FOUND = {
    11: "an announced restart cost moves: the absence was seen before the announcement",
    18: "a roll that met a deletion left a file behind",
    250: "the same, while the owner opened",
}
FOUND_WITH_REFUSALS = {
    300105: "an end was registered before the close of a flushed segment, then the power failed",
    310484: "a server without coordination sealed at its end; the topic was gone, its index stayed",
}


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_no_promise_is_broken_under_any_seed(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        problem = played(run_cluster_seed, seed, JOURNALED if seed % 4 == 3 else None).problem
        assert not problem, problem


@pytest.mark.parametrize("seed", FOUND)
def test_a_seed_that_found_a_bug_passes(seed: int) -> None:
    report = run_cluster_seed(seed, AS_FOUND)
    assert report.ok, f"{report}\nonce found: {FOUND[seed]}"


@pytest.mark.parametrize("seed", FOUND_WITH_REFUSALS)
def test_a_seed_that_found_a_later_bug_passes(seed: int) -> None:
    report = run_cluster_seed(seed, ClusterConfig(metered=0.0, tabled=0.0, lending=False))
    assert report.ok, f"{report}\nonce found: {FOUND_WITH_REFUSALS[seed]}"


@pytest.mark.parametrize("seed", [3, 17])
def test_a_seed_repeats_itself_exactly(seed: int) -> None:
    assert run_cluster_seed(seed).digest() == run_cluster_seed(seed).digest()


def test_seeds_cover_what_matters() -> None:
    """A selection of seeds has seen each kind of trouble and each kind of outcome."""
    kinds: set[str] = set()
    outcomes: set[tuple[str, str]] = set()
    for seed in (*range(0, 40, 2), 29):
        seen = played(run_cluster_seed, seed)
        kinds |= seen.kinds
        outcomes |= seen.outcomes
    assert kinds >= {
        "process-crash", "announced", "leaves", "joins", "drain", "pause", "cut", "cut-meta",
        "cut-storage", "isolated", "meta-down", "power-loss", "clock-jump", "disk-full",
        "recover-refused",
    }  # fmt: skip
    for action in ("put", "commit", "read"):
        assert {(action, "ok"), (action, "fail"), (action, "unknown")} <= outcomes

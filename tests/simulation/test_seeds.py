"""Whole servers from a seed: nothing acknowledged is lost, nothing is invented.

A failure prints its seed and the command that replays it.
"""

import pytest
from tests import tiers
from tests.simulation.proof import played

from opentalos.testing.simulation.seed_run import run_seed
from opentalos.testing.simulation.world.limits import LOG_LIMITS, with_journal
from opentalos.testing.simulation.world.world import WorldConfig

SEEDS = tiers.size(64, 208)
JOURNALED = WorldConfig(log=with_journal(LOG_LIMITS))  # every fourth seed
SEEDS_PER_TEST = 8

# Seeds that found a bug, with what they showed then. Any change of the code that draws or waits
# differently makes another run of a seed; the sum of them stays a good selection. What came later
# and is drawn apart is left out.
AS_FOUND = WorldConfig(put_twice=0.0, metered=0.0, tabled=0.0)
FOUND = {
    6: "a flushed segment without its first page was rejected permanently",
    29: "the log's state was dropped with the last segment",
    103: "the same, on a flushed topic",
    126: "a lost answer and a take-over at once",
    183: "the log's state was dropped with the last segment, after a clock jump",
    247: "a flushed segment was refused that had lost the rest of a sector",
    287: "a put of two blocks was called not done although one was stored",
    294: "a server that did not learn of a topic that its rival created again",
    1095: "a flushed segment was refused that had lost the rest of a sector",
    1207: "an acked retry whose first attempt had expired",
    2334: "a replaced owner took its successor's deletions for a damaged log",
    5000: "the same, on a flushed topic",
    5048: "a replaced owner took its successor's new file for a rolled back manifest",
    5306: "a replaced owner recovered a segment that its successor had dropped",
    20094: "a server that slept through a deletion wrote once more",
}


# The same with metering, as it is drawn by default.
FOUND_METERED = {
    500153: "a topic that a rival created again was taken for a false gap of a producer",
    600221: "one failed read of a log held its metering for a minute",
}


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_no_promise_is_broken_under_any_seed(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        problem = played(run_seed, seed, JOURNALED if seed % 4 == 3 else None).problem
        assert not problem, problem


@pytest.mark.parametrize("seed", FOUND)
def test_a_seed_that_found_a_bug_passes(seed: int) -> None:
    report = run_seed(seed, AS_FOUND)
    assert report.ok, f"{report}\nonce found: {FOUND[seed]}"


@pytest.mark.parametrize("seed", FOUND_METERED)
def test_a_seed_that_found_a_bug_with_metering_passes(seed: int) -> None:
    report = run_seed(seed, WorldConfig(tabled=0.0))
    assert report.ok, f"{report}\nonce found: {FOUND_METERED[seed]}"


@pytest.mark.parametrize("seed", [3, 17])
def test_a_seed_repeats_itself_exactly(seed: int) -> None:
    assert run_seed(seed).digest() == run_seed(seed).digest()


def test_seeds_cover_what_matters() -> None:
    """A selection of seeds has seen each kind of trouble and each kind of outcome."""
    kinds: set[str] = set()
    outcomes: set[tuple[str, str]] = set()
    for seed in (*range(0, 40, 2), 9):
        seen = played(run_seed, seed)
        kinds |= seen.kinds
        outcomes |= seen.outcomes
    assert kinds >= {
        "process-crash", "power-loss", "pause", "usurped", "stopping", "clock-jump", "disk-full",
    }  # fmt: skip
    for action in ("put", "commit", "read"):
        assert {(action, "ok"), (action, "fail"), (action, "unknown")} <= outcomes

"""Random damages to what a server stored: each leaves everything whole, or is heard of.

With ``make faults`` hundreds, else a few of them; see ``tests/faults/damage.py``.
"""

import sys
from collections.abc import Iterator, Sequence

import pytest
from tests.faults.conftest import FULL
from tests.faults.damage import Campaign
from tests.faults.damages.judge import UNHEARD
from tests.faults.damages.outcome import summary

BATCH = 30
# All of a killed server with a journal, so one world is enough. A flipped bit in a sealed segment,
# an older meta.sqlite, an open segment cut, a flipped bit in a log of SQLite, a journal cut, and
# one with a flipped bit.
FEW = (6, 8, 12, 16, 108, 162)
BATCHES = [range(first, first + BATCH) for first in range(0, 270, BATCH)] if FULL else [FEW]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    made = Campaign(tmp_path_factory.mktemp("damages"))
    yield made
    sys.stdout.write(f"\n| damages: {summary(made.ended)}\n")


@pytest.mark.parametrize("seeds", BATCHES, ids=lambda seeds: f"from-{seeds[0]}")
def test_every_damage_is_heard_of(campaign: Campaign, seeds: Sequence[int]) -> None:
    outcomes = [campaign.run(seed) for seed in seeds]
    unheard = [each for each in outcomes if each.judgement.verdict in UNHEARD]
    assert not unheard, "\n".join(map(str, unheard))

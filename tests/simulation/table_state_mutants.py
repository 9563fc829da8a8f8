"""Mutants of a table shard's states: edges that ``TRANSITIONS`` must not have.

Equivalent mutants, or nearly so:

- A fenced shard that stays in SERVING. Its rows are kept right by their versions, its blocks are
  rejected by the logs, its marks by the record, and the next owner's scans find what it left.
- A shard that publishes after it has left or was fenced. Its blocks have an epoch that the logs
  reject as soon as the next owner has announced its own. Only what follows a rejected block can do
  harm, and few seeds come to it: seed 2 of RIVALS shows it, and is kept in test_table_seeds.py.
"""

from typing import Any

import pytest
from tests.simulation.mutants import Mutant, _names
from tests.simulation.table_mutants import epoch_not_raised
from tests.simulation.table_worlds import CALM_ROWS, FEW_CRASHES, META_AWAY

from opentalos.broker.tables.shard.state import TRANSITIONS, Event, State
from opentalos.broker.tables.stream.pending_scan import PendingScan


def serve_before_pending_is_read(patch: pytest.MonkeyPatch) -> None:
    """Without later scans, a second guard that finds after a while what the opening left out."""
    patch.setitem(TRANSITIONS, (State.CLAIMING, Event.CLAIMED), State.SERVING)

    async def nothing(self: Any, rows: Any, table: Any) -> Any:
        self._next_key, self.next_s = None, float("inf")
        return []

    patch.setattr(PendingScan, "page", nothing)


def serve_streams_without_a_claim(patch: pytest.MonkeyPatch) -> None:
    for state in (State.OPENING, State.SERVING):
        patch.setitem(TRANSITIONS, (state, Event.STREAMS), State.SERVING)


def stay_after_a_failure(patch: pytest.MonkeyPatch) -> None:
    for state in (State.OPENING, State.CLAIMING, State.READING, State.SERVING):
        patch.setitem(TRANSITIONS, (state, Event.FAIL), state)


STATE_MUTANTS = (
    Mutant(
        "serves before pending cells are read",
        _names("left-behind", "missing-mutation"),
        serve_before_pending_is_read,
        FEW_CRASHES,
    ),
    Mutant(
        "serves streams without a claim",
        _names("missing-mutation"),
        serve_streams_without_a_claim,
        CALM_ROWS,
    ),
    Mutant(
        "claims again under the same epoch",
        _names("missing-mutation"),
        epoch_not_raised,
        FEW_CRASHES,
    ),
    Mutant(
        "stays after a failure",
        _names("unanswered", "stuck-partition"),
        stay_after_a_failure,
        META_AWAY,
    ),
)

"""Mutants of the log partition's transitions; see ``mutants`` for what a mutant proves.

Two kinds. A step that ignores the state is stopped by the table itself: the simulation names the
``IllegalTransition`` that a server logged. Where the forbidden edge is a promise, the mutant adds
it to the table as well, and the checker has to name what clients saw. The other pairs that the
table does not have are walked by ``tests/unit/log/partition/test_state.py``.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.cluster_mutants import BUSY_MOVES, ZOMBIES
from tests.simulation.mutants import CRASHES, Mutant, _names, no_fence_at_recover

from opentalos.broker.cluster.ownership_guard import ClusterOwnershipGuard
from opentalos.log.partition.lifecycle import PartitionLifecycle
from opentalos.log.partition.state import TRANSITIONS, Event, State
from opentalos.log.partition.writer import PartitionWriter
from opentalos.testing.simulation.stores.faults import FileFaults, WorldFaults

Patch = Callable[[pytest.MonkeyPatch], None]


def _allow(patch: pytest.MonkeyPatch, state: State, *events: Event) -> None:
    for event in events:
        patch.setitem(TRANSITIONS, (state, event), state)


def _everything(patch: pytest.MonkeyPatch, state: State) -> None:
    for event in Event:
        if (state, event) not in TRANSITIONS:
            _allow(patch, state, event)


# --- steps that ignore the state: the table stops them --------------------------------------------


def acknowledge_while_reopening(patch: pytest.MonkeyPatch) -> None:
    """What a failed commit left in the old file is answered before the new one is registered."""
    real = PartitionWriter.recovered

    def recovered(self: Any, next_offset: int) -> None:
        real(self, next_offset)
        if self.group is not None and self.group.entries:
            group, self.group = self.group, None
            group.recovered(self.next_offset)
            self._committed(_Sized(self.total_bytes or 0), group)

    patch.setattr(PartitionWriter, "recovered", recovered)


class _Sized:
    """Stands for a segment: how many bytes the log has."""

    def __init__(self, total_bytes: int) -> None:
        self.state = self
        self.total_bytes = total_bytes


def write_on_after_a_failed_commit(patch: pytest.MonkeyPatch) -> None:
    real = PartitionWriter.write_step

    async def write_step(self: Any, *, in_job: bool = False) -> float:
        segment = self.segment
        delay_s = await real(self, in_job=in_job)
        if self.state is State.MUST_REOPEN and segment is not None:
            self.segment = segment
        return delay_s

    patch.setattr(PartitionWriter, "write_step", write_step)


def open_again_after_a_handoff(patch: pytest.MonkeyPatch) -> None:
    """Also where the assignment says that another server owns the partition."""

    async def confirm_owner(self: ClusterOwnershipGuard, key: Any) -> None:
        return

    patch.setattr(ClusterOwnershipGuard, "refusal", lambda self, key: None)
    patch.setattr(ClusterOwnershipGuard, "confirm_owner", confirm_owner)
    patch.setattr(PartitionWriter, "_check_claimable", lambda self: None)


def take_the_result_of_a_fenced_commit(patch: pytest.MonkeyPatch) -> None:
    """A drop leaves the group in flight and its file; the result of its commit decides."""
    real = PartitionLifecycle.drop

    def drop(self: Any, error: Any) -> None:
        segment = self.segment
        committing = self.group if segment is not None else None
        if committing is not None:
            self.group = None
        real(self, error)
        if committing is not None:
            self.group, self.segment = committing, segment

    patch.setattr(PartitionLifecycle, "drop", drop)


# --- edges that are a promise: added to the table, the checker names them -------------------------


def a_fenced_partition_acknowledges(patch: pytest.MonkeyPatch) -> None:
    """Without fencing at the storage, which makes this guard redundant."""
    no_fence_at_recover(patch)
    _everything(patch, State.FENCED)
    take_the_result_of_a_fenced_commit(patch)


def a_fenced_partition_resumes(patch: pytest.MonkeyPatch) -> None:
    """It writes on in its segment, under the epoch it held; without fencing at the storage."""
    no_fence_at_recover(patch)
    real = PartitionLifecycle.drop

    def drop(self: Any, error: Any) -> None:
        if self.segment is None:
            real(self, error)
        else:
            self._enter(State.OPEN)

    patch.setattr(PartitionLifecycle, "drop", drop)


def acknowledge_before_the_registration(patch: pytest.MonkeyPatch) -> None:
    for state in (State.RECOVERING, State.REOPENING):
        _allow(patch, state, Event.COMMITTED)
    acknowledge_while_reopening(patch)


def _stopped(name: str, apply: Patch, config: Any = CRASHES) -> Mutant:
    return Mutant(name, _names("unhandled-error"), apply, config)


# Busy clients, and a power loss in most seconds: it must find what was acknowledged too early.
LOST_TAILS = replace(
    CRASHES,
    leaves=0.0,  # a few seeds show it; workers that leave only cost calls
    think_s=0.04,
    files=FileFaults(commit_fails=0.25, sync_lies=1.0, commit_slow=0.05, recover_stuck=0.2),
    world=WorldFaults(power_loss=1.0),
)
# A commit that is given up because it hangs has no result that a drop could meet.
SLOW_MOVES = replace(
    BUSY_MOVES,
    files=FileFaults(commit_slow=0.6),
    log=replace(BUSY_MOVES.log, commit_hang_s=60.0, commit_deadline_s=60.0),
)

TRANSITION_MUTANTS = (
    _stopped("acknowledge while reopening", acknowledge_while_reopening),
    _stopped("write on after a failed commit", write_on_after_a_failed_commit),
    Mutant(
        "acknowledge before the registration",
        _names("lost-write"),
        acknowledge_before_the_registration,
        LOST_TAILS,
    ),
)
TRANSITION_CLUSTER_MUTANTS = (
    _stopped("open again after a handoff", open_again_after_a_handoff, BUSY_MOVES),
    _stopped("take the result of a fenced commit", take_the_result_of_a_fenced_commit, SLOW_MOVES),
    Mutant(
        "a fenced partition acknowledges",
        _names("two-writers", "lost-write", "inconsistent-offsets"),
        a_fenced_partition_acknowledges,
        ZOMBIES,
    ),
    Mutant(
        "a fenced partition resumes under the old epoch",
        _names("two-writers", "lost-write", "inconsistent-offsets"),
        a_fenced_partition_resumes,
        ZOMBIES,
    ),
)

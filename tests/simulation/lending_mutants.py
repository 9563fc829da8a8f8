"""Mutants of restarts that lend; see ``mutants`` for what a mutant proves.

A guard that storage fencing makes redundant is broken together with the fencing.

Equivalent mutants, which no client can distinguish from the real code but by longer silences,
which test_lending.py measures: a lender that stops before everything is lent, and one that is given
its partitions before it serves.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.cluster_mutants import ZOMBIES
from tests.simulation.mutants import Mutant, _names, no_fence_at_recover

from opentalos.broker.cluster.cluster_ownership import ClusterOwnership
from opentalos.broker.cluster.control.roster import Roster
from opentalos.broker.cluster.handover import Handover
from opentalos.broker.cluster.membership import Membership
from opentalos.broker.cluster.state import leaving_path
from opentalos.model.errors import NotOwner
from opentalos.placement.lending import Loans
from opentalos.testing.simulation.stores.faults import ClusterFaults

LENDERS = replace(
    ZOMBIES, lending=True, chaos_s=30.0, think_s=0.3, cluster=ClusterFaults(restart=0.2)
)
BUSY_LENDERS = replace(LENDERS, chaos_s=10.0, think_s=0.04, cluster=ClusterFaults(restart=0.7))
LEAVERS = replace(LENDERS, hosts=4, chaos_s=8.0, cluster=ClusterFaults(leave=0.6))
RETURNERS = replace(LENDERS, chaos_s=6.0, cluster=ClusterFaults(restart=1.0))


def keep_what_is_assigned_away(
    patch: pytest.MonkeyPatch, keeps: Callable[[ClusterOwnership], bool]
) -> None:
    """Not a mutant of its own: some servers serve on, and storage does not fence them."""
    no_fence_at_recover(patch)
    real_check, real_release = ClusterOwnership.check, Handover._start_release

    def check(self: Any, topic_uuid: str, partition: int) -> None:
        had = self.__dict__.setdefault("had", {})
        try:
            real_check(self, topic_uuid, partition)
        except NotOwner:
            if (topic_uuid, partition) not in had or not keeps(self):
                raise
        had[topic_uuid, partition] = None

    def start_release(self: Handover, key: Any) -> None:
        if not keeps(self._ownership):
            real_release(self, key)

    patch.setattr(ClusterOwnership, "check", check)
    patch.setattr(Handover, "_start_release", start_release)


def lends(ownership: ClusterOwnership) -> bool:
    """Whether the server has announced a restart."""
    return ownership._state.leaving.get(leaving_path(ownership._me.name)) is not None


def acknowledge_after_lending(patch: pytest.MonkeyPatch) -> None:
    keep_what_is_assigned_away(patch, lends)
    patch.setattr(Handover, "empty", False)  # so it has the time to


def keep_what_was_borrowed(patch: pytest.MonkeyPatch) -> None:
    keep_what_is_assigned_away(patch, lambda ownership: not lends(ownership))


def lend_for_ever(patch: pytest.MonkeyPatch) -> None:
    real = Loans.__init__

    def init(self: Loans, situation: Any, ring: Any, take: Any) -> None:
        real(self, situation, ring, take)
        self._lent = dict(situation.lent)

    patch.setattr(Loans, "__init__", init)


def give_nothing_back(patch: pytest.MonkeyPatch) -> None:
    real = Loans.goal

    def goal(self: Loans, key: Any, owner: str, spare: Any) -> str:
        return owner if key in self else real(self, key, owner, spare)

    patch.setattr(Loans, "goal", goal)


def wait_although_it_lends(patch: pytest.MonkeyPatch) -> None:
    real = Roster.look

    def look(self: Roster, now_s: float, alive: Any, leaving: Any) -> Any:
        found = real(self, now_s, alive, leaving)
        return {name: replace(candidate, lending=False) for name, candidate in found.items()}

    patch.setattr(Roster, "look", look)


def never_ask_for_it_back(patch: pytest.MonkeyPatch) -> None:
    async def take_back(self: Membership) -> None:
        return

    patch.setattr(Membership, "_take_back", take_back)


LENDING_MUTANTS = (
    Mutant(
        "a lender acknowledges after it lent, without fencing",
        _names("two-writers", "lost-write", "inconsistent-offsets"),
        acknowledge_after_lending,
        BUSY_LENDERS,
    ),
    Mutant(
        "a borrower keeps what it gave back, without fencing",
        _names("two-writers", "lost-write", "inconsistent-offsets"),
        keep_what_was_borrowed,
        BUSY_LENDERS,
    ),
    Mutant("a loan never ends", _names("never-rebalanced"), lend_for_ever, LEAVERS),
    Mutant(
        "nothing is given back",
        _names("not-taken-back", "never-rebalanced"),
        give_nothing_back,
        RETURNERS,
    ),
    Mutant("partitions wait although they are lent", _names("not-lent"), wait_although_it_lends,
           LENDERS),
    Mutant(
        "a server that is back never asks for what it lent",
        _names("never-rebalanced"),
        never_ask_for_it_back,
        RETURNERS,
    ),
)  # fmt: skip

"""Mutants of leaving a consumer group."""

from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.mutants import CALM, Mutant

from opentalos.broker.groups import group_names
from opentalos.broker.groups.membership import MembershipService
from opentalos.group.members import GroupMembers
from opentalos.group.state import GroupState
from opentalos.group.writes import Release

LISTED = frozenset({"left-worker-listed"})
LEAVING = replace(CALM, leaves=0.5)


def leave_with_the_leases_of_others(patch: pytest.MonkeyPatch) -> None:
    real = GroupMembers.vacate

    async def vacate(self: GroupMembers, user: Any, worker: str) -> Any:
        await real(self, user, worker)
        group = await self._directory.find(user)
        return tuple(group.partitions) if group else ()

    def decide(self: Release) -> Any:
        row = self.part.value
        return replace(row, owner="") if row.owner else None

    patch.setattr(GroupMembers, "vacate", vacate)
    patch.setattr(Release, "decide", decide)


def leave_and_keep_the_leases(patch: pytest.MonkeyPatch) -> None:
    async def leave(self: MembershipService, caller: Any, unit: Any) -> None:
        topic = group_names.coordinated_topic(self._context, caller, unit.group, unit.resource)
        user = group_names.user_of(caller, topic, unit.group)
        await self._groups.members.vacate(user, unit.worker)

    patch.setattr(MembershipService, "leave", leave)


def leave_and_keep_the_seat(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupState, "remove_worker", lambda self, worker: None)


GROUP_MUTANTS = (
    Mutant(
        "leave with the leases of others",
        frozenset({"stale-commit"}),
        leave_with_the_leases_of_others,
        LEAVING,
    ),
    Mutant(
        "leave and keep the leases",
        LISTED,
        leave_and_keep_the_leases,
        LEAVING,
    ),
    Mutant(
        "leave and keep the seat",
        LISTED,
        leave_and_keep_the_seat,
        LEAVING,
    ),
)

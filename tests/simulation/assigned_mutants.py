"""Mutants of Kafka groups whose coordinator decides who reads what.

Equivalent mutant, which no client can distinguish from the real code: a replaced coordinator
continues without a look at who coordinates the group now (``GroupDirectory.confirm`` returns at
once). It has read the partition's row again by then, and that row decides as always: a member that
holds the partition commits only while the row names it. The real code refuses this call, and then
the client repeats it; a server that believes itself the coordinator claims the group back and
decides on the same row. So every history of the mutant is one of the real code, with a refusal
less. What the look is for is an end to two coordinators that take partitions from each other: the
one that the group's row does not name drops the group, and its members look for the other one.
"""

from typing import Any

import pytest
from tests.simulation.mutants import Mutant

from opentalos.group.directory import GroupDirectory
from opentalos.group.kafka.consumer import ConsumerGroup
from opentalos.group.kafka.consumer_member import ConsumerMember
from opentalos.group.kafka.values import MemberId, Refusal
from opentalos.testing.simulation.cluster.storage_worlds import ASSIGNED_MEMBERS


def accept_commits_of_former_epochs(patch: pytest.MonkeyPatch) -> None:
    def check(self: ConsumerGroup, who: MemberId, epoch: int) -> Refusal | None:
        return None if who.member in self.members else Refusal.UNKNOWN_MEMBER_ID

    patch.setattr(ConsumerGroup, "check", check)


def give_what_another_member_has_not_given_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "_held_by_others", lambda self, member, wanted: frozenset())


def take_every_heartbeat_for_a_confirmation(patch: pytest.MonkeyPatch) -> None:
    """Also one that says that the member still reads what it must give back."""
    real = ConsumerGroup._reconcile

    def reconcile(self: ConsumerGroup, now_s: float, member: ConsumerMember, owned: Any) -> None:
        real(self, now_s, member, owned if not member.revoking else frozenset())

    patch.setattr(ConsumerGroup, "_reconcile", reconcile)


def keep_the_epoch_of_who_gives_back(patch: pytest.MonkeyPatch) -> None:
    """A member that gave a partition back may commit on it as before."""
    real = ConsumerGroup.check
    former: dict[tuple[int, str], set[int]] = {}
    advance = ConsumerMember.advance

    def advanced(self: ConsumerMember, epoch: int, assigned: Any, waits: bool) -> None:
        if self.revoking:
            former.setdefault((id(self), self.who.member), set()).add(self.epoch)
        advance(self, epoch, assigned, waits)

    def check(self: ConsumerGroup, who: MemberId, epoch: int) -> Refusal | None:
        member = self.members.get(who.member)
        if member is not None and epoch in former.get((id(member), who.member), ()):
            return None
        return real(self, who, epoch)

    patch.setattr(ConsumerMember, "advance", advanced)
    patch.setattr(ConsumerGroup, "check", check)


def ask_nobody_who_coordinates(patch: pytest.MonkeyPatch) -> None:
    """The equivalent one."""

    async def confirm(self: GroupDirectory, group: Any) -> None:
        return

    patch.setattr(GroupDirectory, "confirm", confirm)


ASSIGNED_MUTANTS = (
    Mutant(
        "accept commits of former epochs",
        frozenset({"stale-commit"}),
        accept_commits_of_former_epochs,
        ASSIGNED_MEMBERS,
    ),
    Mutant(
        "keep the epoch of who gives back",
        frozenset({"stale-commit"}),
        keep_the_epoch_of_who_gives_back,
        ASSIGNED_MEMBERS,
    ),
    Mutant(
        "give what another member has not given back",
        frozenset({"assigned-twice"}),
        give_what_another_member_has_not_given_back,
        ASSIGNED_MEMBERS,
    ),
    Mutant(
        "take every heartbeat for a confirmation",
        frozenset({"assigned-twice"}),
        take_every_heartbeat_for_a_confirmation,
        ASSIGNED_MEMBERS,
    ),
)

"""Random histories of classic groups, and mutants that they must catch."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.group.kafka.classic_world import play

from opentalos.group.kafka.classic import ClassicGroup
from opentalos.group.kafka.classic_member import Answer, Ticket
from opentalos.group.kafka.values import (
    GroupState,
    JoinRequest,
    MemberId,
    Refusal,
    SyncOutcome,
    SyncRequest,
)
from opentalos.model.settings.kafka import KafkaGroupLimits

SEEDS = 60
CATCHES_MIN = 3


class NoGenerations(ClassicGroup):
    """Every member may do everything, whatever generation it knows."""

    def _check(self, who: MemberId, generation: int) -> Refusal | None:
        return self._identify(who)


class AnyDecision(ClassicGroup):
    """A leader decides for the members it knows, whichever generation they are in now."""

    def _sync_refusal(self, request: SyncRequest) -> Refusal | None:
        if request.who.member not in self._members or self.state is GroupState.PREPARING:
            return super()._sync_refusal(request)
        return None

    def sync(self, now_s: float, request: SyncRequest, ticket: Ticket) -> None:
        if request.assignments and request.who.member in self._members:
            for name, assignment in request.assignments.items():
                if name in self._members and self.state is GroupState.STABLE:
                    self._members[name].assignment = assignment
        super().sync(now_s, request, ticket)


class ForgivingFence(ClassicGroup):
    """A static member whose place was taken goes on."""

    def check_commit(self, now_s: float, who: MemberId, generation: int) -> Refusal | None:
        if who.instance in self._instances:
            return None
        return super().check_commit(now_s, who, generation)


class OwnDecision(ClassicGroup):
    """Whoever brings assignments is told its own."""

    def sync(self, now_s: float, request: SyncRequest, ticket: Ticket) -> None:
        super().sync(now_s, request, ticket)
        own = request.assignments.get(request.who.member)
        member = self._members.get(request.who.member)
        if own is not None and member is not None and self.state is GroupState.COMPLETING:
            member.syncing = None
            self._events.answers.append(Answer(ticket, SyncOutcome(assignment=own)))


class LostWaiter(ClassicGroup):
    """A rebalance that begins forgets who waits for the leader."""

    def join(self, now_s: float, request: JoinRequest, ticket: Ticket) -> None:
        for member in self._members.values():
            member.syncing = None
        super().join(now_s, request, ticket)


class Mutant(NamedTuple):
    name: str
    anomaly: str
    make: Callable[[KafkaGroupLimits], ClassicGroup]


MUTANTS = (
    Mutant("zombie commit", "stale-commit", NoGenerations),
    Mutant("a former leader decides", "two-owners", AnyDecision),
    Mutant("fenced member goes on", "fenced-member-commits", ForgivingFence),
    Mutant("two leaders in a generation", "two-owners", OwnDecision),
    Mutant("nobody answers", "waits-for-ever", LostWaiter),
)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 30))
def test_random_histories_keep_every_promise(seed: int) -> None:
    assert play(seed).anomalies == set()


def test_histories_reach_stable_groups() -> None:
    worlds = [play(seed) for seed in range(10)]
    assert sum(world.stable_s for world in worlds) > 200
    assert any(client.replaced for world in worlds for client in world.clients)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_caught_by_name(mutant: Mutant) -> None:
    caught = [seed for seed in range(SEEDS) if mutant.anomaly in play(seed, mutant.make).anomalies]
    assert len(caught) >= CATCHES_MIN

"""Values of ``ClassicGroup``: a member, answers to those that wait, and what else happened."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from opentalos.group.kafka.values import (
    MEMBER_BYTES,
    JoinOutcome,
    JoinRequest,
    MemberId,
    Proposal,
    SyncOutcome,
)

Ticket = int  # of a caller that waits for its answer


class Answer(NamedTuple):
    """The answer to a caller that waits."""

    ticket: Ticket
    outcome: JoinOutcome | SyncOutcome


class GivenId(NamedTuple):
    """An id that was given out, and that nobody has used yet."""

    until_s: float
    connection: object | None


@dataclass(slots=True)
class Events:
    """What happened: answers, ids that are members no more, and a decision to be granted."""

    answers: list[Answer] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    proposal: Proposal | None = None

    def propose(self, proposal: Proposal | None) -> None:
        """A leader decided, or its decision was withdrawn before anybody took it."""
        self.proposal = proposal


@dataclass(slots=True, eq=False)
class ClassicMember:
    """A member, and what of it waits for an answer."""

    who: MemberId
    client_id: str
    host: str
    session_s: float
    rebalance_s: float
    protocols: Mapping[str, bytes]
    expires_s: float = math.inf
    assignment: bytes = b""
    joining: Ticket | None = None
    syncing: Ticket | None = None
    synced: bool = True  # has asked for the assignment of the generation
    connection: object | None = None  # with which it goes; None once it was in a generation
    memory_bytes: int = 0  # without its assignment

    @property
    def waits(self) -> bool:
        """It cannot send heartbeats meanwhile; its wait is bounded."""
        return self.joining is not None or self.syncing is not None

    def expired(self, now_s: float) -> bool:
        """Whether its session has ended."""
        return not self.waits and self.expires_s <= now_s

    def revive(self, now_s: float) -> None:
        """It gave a sign of life."""
        self.expires_s = now_s + self.session_s

    def update(self, request: JoinRequest, rebalance_s: float) -> None:
        """Take over what it said when it joined again."""
        self.client_id, self.host = request.client_id, request.host
        self.session_s, self.rebalance_s = request.session_s, rebalance_s
        self.protocols, self.memory_bytes = dict(request.protocols), request.memory_bytes
        if self.connection is not None:
            self.connection = request.connection

    def rename(self, member_id: str) -> None:
        """A static member has a new id."""
        self.who = MemberId(member_id, self.who.instance)

    def await_join(self, ticket: Ticket) -> None:
        """It waits for the next generation."""
        self.joining = ticket

    def take_join(self) -> Ticket:
        """It waits no more."""
        assert self.joining is not None
        ticket, self.joining = self.joining, None
        return ticket

    def await_sync(self, ticket: Ticket) -> None:
        """It waits for the leader's decision."""
        self.syncing = ticket

    def take_sync(self) -> Ticket:
        """It waits no more."""
        assert self.syncing is not None
        ticket, self.syncing = self.syncing, None
        return ticket

    def expect_sync(self, expected: bool) -> None:
        """Whether it has still to ask for its assignment; one of before is void."""
        self.synced = not expected
        if expected:
            self.assignment, self.connection = b"", None

    def assign(self, assignment: bytes) -> None:
        """What the leader decided for it."""
        self.assignment = assignment


class ProtocolNames:
    """How many members have each protocol, so that a join costs as little in a large group."""

    def __init__(self) -> None:
        self._members: Counter[str] = Counter()  # by name

    def add(self, protocols: Iterable[str]) -> None:
        """A member has these."""
        self._members.update(iter(protocols))  # of a mapping its values would count

    def remove(self, protocols: Iterable[str]) -> None:
        """The member has them no more."""
        for name in protocols:
            self._members[name] -= 1
            if not self._members[name]:
                del self._members[name]

    def of_all(self, members: int) -> frozenset[str]:
        """Those that so many members have."""
        return frozenset(name for name, count in self._members.items() if count == members)

    def fit(self, asked: Iterable[tuple[str, bytes]], former: Collection[str], others: int) -> bool:
        """Whether all others have one that is asked for. ``former``: what the asking member has."""
        counts = self._members
        return any(counts[name] - (name in former) == others for name, _ in asked)


def memory_of(members: Iterable[ClassicMember], ids: int, proposal: Proposal | None) -> int:
    """What members, ids that were given out, assignments and a leader's decision take."""
    decided = sum(map(len, proposal.assignments.values())) if proposal is not None else 0
    kept = sum(member.memory_bytes + len(member.assignment) for member in members)
    return kept + ids * MEMBER_BYTES + decided

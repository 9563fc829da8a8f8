"""What members of Kafka's consumer groups ask, and what a coordinator answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

PROTOCOLS_MAX = 64  # of one join; clients name as many as they have assignors
MEMBER_BYTES = 1 << 10  # of a member without what it sent: its id, its places in tables


def text_bytes(text: str) -> int:
    """Of a text that a client sent."""
    return len(text) if text.isascii() else len(text.encode())


class Refusal(StrEnum):
    """Why a coordinator refuses; the names are those of Kafka's error codes."""

    COORDINATOR_NOT_AVAILABLE = "COORDINATOR_NOT_AVAILABLE"
    NOT_COORDINATOR = "NOT_COORDINATOR"
    ILLEGAL_GENERATION = "ILLEGAL_GENERATION"
    INCONSISTENT_GROUP_PROTOCOL = "INCONSISTENT_GROUP_PROTOCOL"
    INVALID_GROUP_ID = "INVALID_GROUP_ID"
    INVALID_REQUEST = "INVALID_REQUEST"
    UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
    INVALID_SESSION_TIMEOUT = "INVALID_SESSION_TIMEOUT"
    REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"
    GROUP_AUTHORIZATION_FAILED = "GROUP_AUTHORIZATION_FAILED"
    GROUP_ID_NOT_FOUND = "GROUP_ID_NOT_FOUND"
    NON_EMPTY_GROUP = "NON_EMPTY_GROUP"
    MEMBER_ID_REQUIRED = "MEMBER_ID_REQUIRED"
    GROUP_MAX_SIZE_REACHED = "GROUP_MAX_SIZE_REACHED"
    FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"
    FENCED_MEMBER_EPOCH = "FENCED_MEMBER_EPOCH"
    STALE_MEMBER_EPOCH = "STALE_MEMBER_EPOCH"
    UNRELEASED_INSTANCE_ID = "UNRELEASED_INSTANCE_ID"
    UNSUPPORTED_ASSIGNOR = "UNSUPPORTED_ASSIGNOR"
    INVALID_REGULAR_EXPRESSION = "INVALID_REGULAR_EXPRESSION"
    GROUP_SUBSCRIBED_TO_TOPIC = "GROUP_SUBSCRIBED_TO_TOPIC"


class GroupState(StrEnum):
    """States of a group, as Kafka's tools show them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    DEAD = "Dead"


class MemberId(NamedTuple):
    """Who a caller says it is. ``instance``: of a static member."""

    member: str
    instance: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A member joins. ``protocols``: name and metadata, the preferred one first.

    ``fresh_id`` is what a member without an id is given; ``ids_required``: a new member gets its id
    first and joins with it; ``skips``: the client knows ``JoinOutcome.skip_assignment``.
    """

    who: MemberId
    client_id: str
    host: str
    session_s: float
    rebalance_s: float
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    fresh_id: str
    ids_required: bool = True
    skips: bool = True
    # With which a member goes that has not been in a generation, and an id that nobody used.
    connection: object | None = None

    @property
    def memory_bytes(self) -> int:
        """What the member takes."""
        names = [name for name, _ in self.protocols]
        names += (self.who.instance or "", self.client_id, self.host, self.protocol_type)
        data = sum(map(len, [metadata for _, metadata in self.protocols]))
        return MEMBER_BYTES + text_bytes("".join(names)) + data

    def is_small(self, metadata_bytes_max: int) -> bool:
        """Whether there are few protocols, with little metadata."""
        if len(self.protocols) > PROTOCOLS_MAX:
            return False
        size = sum(len(name) + len(metadata) for name, metadata in self.protocols)
        return size <= metadata_bytes_max


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    who: MemberId
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinOutcome:
    """The answer to a join. Only the leader gets ``members``."""

    refusal: Refusal | None = None
    member: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()

    def of_returned_leader(self, old_id: str, skips: bool) -> "JoinOutcome":
        """For a static leader that is back, and must not decide again."""
        leader, members = (self.leader, self.members) if skips else (old_id, ())
        return replace(self, leader=leader, skip_assignment=skips, members=members)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A member asks for its assignment; the leader brings those of all, by member id."""

    who: MemberId
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOutcome:
    """The answer to a sync."""

    refusal: Refusal | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Proposal(NamedTuple):
    """What the leader of a generation decided, by member id; it holds once it was granted."""

    generation: int
    assignments: Mapping[str, bytes]


class DescribedMember(NamedTuple):
    """A member as tools see it. ``metadata`` and ``assignment`` are the client's own bytes."""

    who: MemberId
    client_id: str
    host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """A group as tools see it."""

    state: GroupState
    protocol_type: str
    protocol: str
    members: Sequence[DescribedMember]


class _Identified(Protocol):
    @property
    def who(self) -> MemberId: ...


_Member = TypeVar("_Member", bound=_Identified)


def member_of(members: Mapping[str, _Member], who: MemberId) -> _Member | None:
    """The member that speaks again, a static one perhaps under another id."""
    known = members.get(who.member)
    if known is None and who.instance is not None:
        known = next((m for m in members.values() if m.who.instance == who.instance), None)
    return known

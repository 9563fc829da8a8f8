"""Values of ``ConsumerGroup``: a member and what it has of its target."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from opentalos.group.kafka.assignors import TopicPart
from opentalos.group.kafka.values import MemberId, Refusal

JOINS = 0
LEAVES = -1
LEAVES_FOR_A_WHILE = -2  # a static member that will come back
Parts = frozenset[TopicPart]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A heartbeat. None: as before. ``owned``: the partitions that the member still reads.

    ``topics``: uuids that it subscribes to, also by its regular expression.
    """

    who: MemberId
    epoch: int
    client_id: str = ""
    host: str = ""
    rack: str | None = None
    rebalance_s: float | None = None
    names: tuple[str, ...] | None = None
    regex: str | None = None
    topics: frozenset[str] | None = None
    assignor: str | None = None
    owned: Parts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerAnswer:
    """The answer. ``assignment``: None if the member knows it."""

    refusal: Refusal | None = None
    text: str = ""
    member: str = ""
    epoch: int = 0
    assignment: Parts | None = None


@dataclass(slots=True, eq=False)
class ConsumerMember:
    """A member. ``assigned`` it may read; ``revoking`` it still has to give back."""

    who: MemberId
    client_id: str
    host: str
    rack: str | None = None
    rebalance_s: float = 300.0
    names: tuple[str, ...] = ()
    regex: str | None = None
    topics: frozenset[str] = frozenset()
    assignor: str | None = None
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Parts = frozenset()
    revoking: Parts = frozenset()
    expires_s: float = 0.0
    revoke_until_s: float = field(default=float("inf"))
    revoke_epoch: int = 0  # in which it is once it has given them back
    waits: bool = False  # for partitions that others still have

    @property
    def holds(self) -> Parts:
        """What nobody else may be given now."""
        return self.assigned | self.revoking

    def take(self, heartbeat: ConsumerHeartbeat) -> bool:
        """Take over what it says; True if it subscribes to something else."""
        if heartbeat.client_id:
            self.client_id, self.host = heartbeat.client_id, heartbeat.host
        if heartbeat.rack is not None:
            self.rack = heartbeat.rack
        if heartbeat.rebalance_s is not None:
            self.rebalance_s = heartbeat.rebalance_s
        before = (self.topics, self.assignor)
        if heartbeat.names is not None:
            self.names = heartbeat.names
        if heartbeat.regex is not None:
            self.regex = heartbeat.regex or None
        if heartbeat.topics is not None:
            self.topics = heartbeat.topics
        if heartbeat.assignor is not None:
            self.assignor = heartbeat.assignor
        return before != (self.topics, self.assignor)

    def revive(self, until_s: float) -> None:
        """It gave a sign of life."""
        self.expires_s = until_s

    def begin(self) -> None:
        """It joins, again perhaps: it reads nothing."""
        self.previous_epoch, self.epoch = -1, 0
        self.assigned = self.revoking = frozenset()
        self.revoke_until_s = float("inf")

    def pause(self) -> None:
        """A static member is away for a while; its partitions wait for it."""
        self.epoch = LEAVES_FOR_A_WHILE

    def returned(self, member_id: str) -> None:
        """A static member is back under another id, with what it had."""
        self.who = MemberId(member_id, self.who.instance)
        self.previous_epoch, self.epoch = -1, 0
        self.revoking = frozenset()

    def revoke(self, parts: Iterable[TopicPart], epoch: int, until_s: float) -> None:
        """It has to give these back before it is in the epoch."""
        self.revoke_epoch = epoch
        self.revoking = frozenset(parts)
        self.assigned -= self.revoking
        self.revoke_until_s = until_s

    def advance(self, epoch: int, assigned: Parts, waits: bool) -> None:
        """It is in an epoch of the group."""
        if epoch != self.epoch:
            self.previous_epoch, self.epoch = self.epoch, epoch
        self.assigned, self.revoking, self.waits = assigned, frozenset(), waits
        self.revoke_until_s = float("inf")

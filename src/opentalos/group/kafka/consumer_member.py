"""Values of ``ConsumerGroup``: a member and what it has of its target."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from opentalos.group.kafka.assignors import TopicPart
from opentalos.group.kafka.values import MEMBER_BYTES, MemberId, Refusal, text_bytes

JOINS = 0
LEAVES = -1
LEAVES_FOR_A_WHILE = -2  # a static member that will come back
Parts = frozenset[TopicPart]
_NAME_BYTES = 64  # of a topic's name, beside its text
_TOPIC_BYTES = 128  # of a topic that a member subscribes to, in sets and tables
_PART_BYTES = 192  # of a partition that it is given
_ID_COPIES = 3  # of an id that a client chose


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

    @property
    def says_nothing_new(self) -> bool:
        """Whether it is of a member that subscribes to what it did before."""
        return self.epoch > JOINS and self.names is None and self.regex is None

    @property
    def memory_bytes(self) -> int:
        """What the member takes by what it says here."""
        texts = (self.who.instance, self.client_id, self.host, self.rack, self.regex, self.regex)
        # One text, as there may be thousands of names.
        names = len(self.names or ()) * _NAME_BYTES + text_bytes("".join(self.names or ()))
        known = len(self.topics or ()) * _TOPIC_BYTES
        given = sum(text_bytes(text) for text in texts if text)
        return MEMBER_BYTES + _ID_COPIES * text_bytes(self.who.member) + given + names + known


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
    since: int = 0  # the epoch of the group in which it joined
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Parts = frozenset()
    revoking: Parts = frozenset()
    expires_s: float = 0.0
    revoke_until_s: float = field(default=float("inf"))
    revoke_epoch: int = 0  # in which it is once it has given them back
    waits: bool = False  # for partitions that others still have
    said_bytes: int = 0  # what it takes without its assignment
    counted_bytes: int = 0  # what its group counts for it

    @property
    def memory_bytes(self) -> int:
        """What it and its assignment take."""
        return self.said_bytes + len(self.assigned) * _PART_BYTES + len(self.revoking) * _PART_BYTES

    def joined(self, epoch: int) -> None:
        """It is a member from this epoch of the group on."""
        self.since = epoch

    def take(self, heartbeat: ConsumerHeartbeat) -> bool:
        """Take over what it says; True if it subscribes to something else."""
        renamed = not self.said_bytes or heartbeat.client_id not in ("", self.client_id)
        if heartbeat.client_id:
            self.client_id, self.host = heartbeat.client_id, heartbeat.host
        if heartbeat.rack is not None:
            self.rack = heartbeat.rack
        if heartbeat.rebalance_s is not None:
            self.rebalance_s = heartbeat.rebalance_s
        before = (self.topics, self.assignor)
        said = heartbeat.names, heartbeat.regex, heartbeat.rack
        if heartbeat.names is not None:
            self.names = heartbeat.names
        if heartbeat.regex is not None:
            self.regex = heartbeat.regex or None
        if heartbeat.topics is not None:
            self.topics = heartbeat.topics
        if heartbeat.assignor is not None:
            self.assignor = heartbeat.assignor
        changed = before != (self.topics, self.assignor)
        if changed or renamed or said != (None, None, None):
            whole = replace(
                heartbeat,
                client_id=self.client_id,
                host=self.host,
                rack=self.rack,
                names=self.names,
                regex=self.regex,
                topics=self.topics,
            )
            self.said_bytes = whole.memory_bytes
        return changed

    def count(self, taken: int) -> int:
        """Its group counts so many bytes for it now. Returns: how many more."""
        growth, self.counted_bytes = taken - self.counted_bytes, taken
        return growth

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

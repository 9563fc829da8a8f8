"""ConsumerGroup: members of a group whose assignments the server decides; pure.

Heartbeats are all that members send; each is answered at once. A partition is given to a member
only after the former one has given it back, or is no member any more. A small target is decided
with the heartbeat that needs it; a large one by who drives the machine (``undecided``), and until
then members have what they had, and new ones nothing.

Source: Apache Kafka 4.3, protocol guide; KIP-848; KIP-1082 (ids made by clients).
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from opentalos.group.kafka.assignors import (
    ASSIGNORS,
    DEFAULT_ASSIGNOR,
    Counts,
    Subscriptions,
    Target,
    TopicPart,
    no_pause,
)
from opentalos.group.kafka.consumer_member import (
    JOINS,
    LEAVES,
    LEAVES_FOR_A_WHILE,
    ConsumerAnswer,
    ConsumerHeartbeat,
    ConsumerMember,
    Parts,
)
from opentalos.group.kafka.group_topics import GroupTopics
from opentalos.group.kafka.values import GroupState, MemberId, Refusal
from opentalos.model.settings.kafka import KafkaGroupLimits

_EPOCH_MIN = LEAVES_FOR_A_WHILE
DECIDED_AT_ONCE: Final = 500  # members, what they subscribe to, and partitions: less than 1 ms
REMOVED_AT_ONCE: Final = 5_000  # topics that members read who are removed together
_MEMBER_TOPICS: Final = 20  # removing a member takes as long as so many topics
_NO_TOPICS: Final = frozenset[str]()


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """What a target is decided from; nothing in it changes."""

    epoch: int
    assignor: str
    subscriptions: Subscriptions
    counts: Counts
    before: Target

    def decide(self, pause: Callable[[], None] = no_pause) -> Target:
        """The target. ``pause`` is called after each piece of about 1 ms."""
        assign = ASSIGNORS[self.assignor]
        return assign(self.subscriptions, self.counts, self.before, pause)


class ConsumerGroup:
    """Members, epochs and assignments of one group.

    Nobody is given a partition that another member is assigned or still has to give back.
    """

    def __init__(self, limits: KafkaGroupLimits, first_epoch: int = 0) -> None:
        self._limits = limits
        self.epoch = self.target_epoch = first_epoch
        self.assignor = DEFAULT_ASSIGNOR
        self.target: Target = {}
        self.members: dict[str, ConsumerMember] = {}
        self._instances: dict[str, str] = {}
        self.topics = GroupTopics()
        self._removed: list[str] = []
        self.memory_bytes = 0  # what members and assignments take

    def take_removed(self) -> Sequence[str]:
        """Ids that are members no more, since the last call."""
        removed, self._removed = self._removed, []
        return removed

    @property
    def idle(self) -> bool:
        """Nothing has to be remembered."""
        return not self.members

    @property
    def state(self) -> GroupState:
        """As tools show it."""
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        settled = all(
            member.epoch == self.target_epoch and not member.waits and not member.revoking
            for member in self.members.values()
        )
        return GroupState.STABLE if settled else GroupState.RECONCILING

    @property
    def decides_later(self) -> bool:
        """Whether a target is to be decided that is too large for a heartbeat."""
        return self.epoch > self.target_epoch and bool(self.members) and self._is_large

    @property
    def _is_large(self) -> bool:
        topics = self.topics
        return len(self.members) + topics.read + topics.partitions > DECIDED_AT_ONCE

    def deadline_s(self) -> float:
        """When ``tick`` has something to do; infinity: never."""
        members = self.members.values()
        return min((min(m.expires_s, m.revoke_until_s) for m in members), default=math.inf)

    def tick(self, now_s: float) -> None:
        """Remove members without heartbeats, and those that do not give partitions back.

        If they are many, some are left, for which something is to be done at once.
        """
        removed = 0
        for member in list(self.members.values()):
            if min(member.expires_s, member.revoke_until_s) <= now_s:
                removed += _MEMBER_TOPICS + len(member.topics)
                self._remove(member)
                if removed > REMOVED_AT_ONCE:
                    return

    def heartbeat(
        self, now_s: float, heartbeat: ConsumerHeartbeat, counts: Mapping[str, int]
    ) -> ConsumerAnswer:
        """A member joins, stays or leaves. ``counts``: partitions of the topics that it reads."""
        refusal = self._refusal(heartbeat)
        if refusal is not None:
            return ConsumerAnswer(refusal=refusal, member=heartbeat.who.member)
        if heartbeat.epoch < JOINS:
            return self._leave(heartbeat)
        text = self._too_many(heartbeat, counts)
        if text and heartbeat.says_nothing_new:
            # A topic grew, or a new one matches: the group keeps what it has.
            heartbeat, counts = replace(heartbeat, topics=None), {}
        elif text:
            refusal, name = Refusal.GROUP_MAX_SIZE_REACHED, heartbeat.who.member
            return ConsumerAnswer(refusal=refusal, text=text, member=name)
        joins = heartbeat.epoch == JOINS
        member = self._joined(heartbeat) if joins else self._of(heartbeat)
        topics = member.topics
        changed = member.take(heartbeat) or joins
        self.topics.replace(topics, member.topics, counts)
        if self.topics.resize(counts) or changed:
            self.epoch += 1
        if joins:
            member.joined(self.epoch)
        member.revive(now_s + self._limits.consumer_session_s)
        self._decide()
        before = member.assigned
        self._reconcile(now_s, member, heartbeat.owned)
        self.memory_bytes += member.count(member.memory_bytes)
        whole = (
            heartbeat.epoch != member.epoch
            or member.assigned != before
            or (heartbeat.owned is not None and heartbeat.owned != member.assigned)
        )
        return ConsumerAnswer(
            member=member.who.member,
            epoch=member.epoch,
            assignment=member.assigned if whole else None,
        )

    def check(self, who: MemberId, epoch: int) -> Refusal | None:
        """Whether a member in its present epoch commits or asks for positions."""
        member = self.members.get(who.member)
        if member is None:
            return Refusal.UNKNOWN_MEMBER_ID
        return None if epoch == member.epoch else Refusal.STALE_MEMBER_EPOCH

    # --- who ---------------------------------------------------------------------------------

    def _refusal(self, heartbeat: ConsumerHeartbeat) -> Refusal | None:
        who, epoch = heartbeat.who, heartbeat.epoch
        if epoch < _EPOCH_MIN or not who.member:
            return Refusal.INVALID_REQUEST
        if heartbeat.assignor and heartbeat.assignor not in ASSIGNORS:
            return Refusal.UNSUPPORTED_ASSIGNOR
        current = self._instances.get(who.instance) if who.instance is not None else None
        if epoch == JOINS:
            if heartbeat.topics is None or heartbeat.owned:
                return Refusal.INVALID_REQUEST
            if current is not None and current != who.member:
                away = self.members[current].epoch == LEAVES_FOR_A_WHILE
                return None if away else Refusal.UNRELEASED_INSTANCE_ID
            full = len(self.members) >= self._limits.members_max
            known = who.member in self.members
            return Refusal.GROUP_MAX_SIZE_REACHED if full and not known else None
        member = self.members.get(who.member)
        if current is not None and current != who.member:
            return Refusal.FENCED_INSTANCE_ID
        if member is None:
            return Refusal.UNKNOWN_MEMBER_ID
        if epoch == LEAVES_FOR_A_WHILE and who.instance is None:
            return Refusal.INVALID_REQUEST
        return None if epoch < JOINS else _fence(member, heartbeat)

    def _too_many(self, heartbeat: ConsumerHeartbeat, counts: Mapping[str, int]) -> str:
        """Why the topics of the group would have too many partitions; empty: they do not."""
        known = self.members.get(heartbeat.who.member)
        if known is None and heartbeat.who.instance is not None:
            known = self.members.get(self._instances.get(heartbeat.who.instance, ""))
        before = known.topics if known is not None else _NO_TOPICS
        after = before if heartbeat.topics is None else heartbeat.topics
        total, limit = self.topics.partitions_with(before, after, counts), self._limits
        if total <= max(limit.partitions_max, self.topics.partitions):
            return ""
        return (
            f"partitions of the topics that a consumer group reads: limit {limit.partitions_max} "
            f"([kafka_group] partitions_max), measured {total}"
        )

    def _of(self, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
        return self.members[heartbeat.who.member]

    def _joined(self, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
        who = heartbeat.who
        current = self._instances.get(who.instance) if who.instance is not None else None
        if current is not None and current != who.member:
            member = self.members.pop(current)
            member.returned(who.member)
            self._removed.append(current)
            self.target = {
                who.member if name == current else name: parts
                for name, parts in self.target.items()
            }
        else:
            member = self.members.get(who.member) or ConsumerMember(
                who, heartbeat.client_id, heartbeat.host
            )
            member.begin()
        self.members[who.member] = member
        if who.instance is not None:
            self._instances[who.instance] = who.member
        return member

    def _leave(self, heartbeat: ConsumerHeartbeat) -> ConsumerAnswer:
        member = self._of(heartbeat)
        if heartbeat.epoch == LEAVES:
            self._remove(member)
        else:
            member.pause()
        return ConsumerAnswer(member=heartbeat.who.member, epoch=heartbeat.epoch)

    def _remove(self, member: ConsumerMember) -> None:
        self.memory_bytes += member.count(0)
        self.topics.replace(member.topics, _NO_TOPICS, {})
        del self.members[member.who.member]
        if member.who.instance is not None:
            self._instances.pop(member.who.instance, None)
        self._removed.append(member.who.member)
        self.epoch += 1

    # --- what ----------------------------------------------------------------------------------

    def undecided(self) -> Undecided | None:
        """What is to be decided, since members or topics have changed."""
        if self.epoch <= self.target_epoch or not self.members:
            return None
        wishes = Counter(m.assignor for m in self.members.values() if m.assignor)
        return Undecided(
            epoch=self.epoch,
            assignor=max(sorted(wishes), key=lambda a: wishes[a], default=DEFAULT_ASSIGNOR),
            subscriptions={name: member.topics for name, member in self.members.items()},
            counts=dict(self.topics.counts),
            before=self.target,
        )

    def decided(self, undecided: Undecided, target: Target) -> None:
        """Take a target, unless there is a later one.

        If members or topics have changed since, it is taken all the same, so that members that
        keep coming cannot put off every target.
        """
        if undecided.epoch > self.target_epoch:
            self.assignor, self.target = undecided.assignor, target
            self.target_epoch = undecided.epoch

    def _decide(self) -> None:
        undecided = None if self._is_large else self.undecided()
        if undecided is not None:
            self.decided(undecided, undecided.decide())

    def _reconcile(self, now_s: float, member: ConsumerMember, owned: Parts | None) -> None:
        """Bring a member nearer to its target: first it gives back, then it is given."""
        if member.revoking:
            if owned is None or owned & member.revoking:
                return
            # A new epoch, also if it has to give back more: late commits from before must not fit.
            member.advance(member.revoke_epoch, member.assigned, waits=True)
        if member.since > self.target_epoch:
            # The target is of a time before it joined. Its epoch is new: commits from before fail.
            member.advance(member.since, frozenset(), waits=True)
            return
        if member.epoch == self.target_epoch and not member.waits:
            return
        target = self.target.get(member.who.member, frozenset())
        surplus = member.assigned - target
        if surplus and member.epoch > JOINS:
            member.revoke(surplus, self.target_epoch, now_s + member.rebalance_s)
            return
        kept = member.assigned & target
        wanted = target - kept
        if wanted and self.epoch > self.target_epoch:
            # It may read other topics by now.
            wanted = frozenset([part for part in wanted if part.topic in member.topics])
        others = self._held_by_others(member, wanted) if wanted else wanted
        free = wanted - others
        member.advance(self.target_epoch, kept | free, waits=free != wanted)

    def _held_by_others(self, member: ConsumerMember, wanted: Parts) -> Parts:
        held: set[TopicPart] = set()
        for other in self.members.values():
            if other is not member:
                # An intersection costs what the smaller one has.
                held |= wanted & other.assigned
                held |= wanted & other.revoking
        return frozenset(held)


def _fence(member: ConsumerMember, heartbeat: ConsumerHeartbeat) -> Refusal | None:
    """The last answer may be lost, so the epoch before counts if the member claims nothing else."""
    if heartbeat.epoch == member.epoch:
        return None
    owned = heartbeat.owned
    again = heartbeat.epoch == member.previous_epoch and owned is not None
    if again and owned is not None and owned <= member.assigned:
        return None
    return Refusal.FENCED_MEMBER_EPOCH

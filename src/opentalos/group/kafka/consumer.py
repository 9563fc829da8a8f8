"""ConsumerGroup: members of a group whose assignments the server decides; pure.

Heartbeats are all that members send; each is answered at once. A partition is given to a member
only after the former one has given it back, or is no member any more.

Source: Apache Kafka 4.3, protocol guide; KIP-848; KIP-1082 (ids made by clients).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from opentalos.group.kafka.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, Target, TopicPart
from opentalos.group.kafka.consumer_member import (
    JOINS,
    LEAVES,
    LEAVES_FOR_A_WHILE,
    ConsumerAnswer,
    ConsumerHeartbeat,
    ConsumerMember,
    Parts,
)
from opentalos.group.kafka.values import GroupState, MemberId, Refusal
from opentalos.model.settings.kafka import KafkaGroupLimits

_EPOCH_MIN = LEAVES_FOR_A_WHILE


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
        self._counts: Mapping[str, int] = {}
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

    def deadline_s(self) -> float:
        """When ``tick`` has something to do; infinity: never."""
        members = self.members.values()
        return min((min(m.expires_s, m.revoke_until_s) for m in members), default=math.inf)

    def tick(self, now_s: float) -> None:
        """Remove members without heartbeats, and those that do not give partitions back."""
        for member in list(self.members.values()):
            if min(member.expires_s, member.revoke_until_s) <= now_s:
                self._remove(member)

    def heartbeat(
        self, now_s: float, heartbeat: ConsumerHeartbeat, counts: Mapping[str, int]
    ) -> ConsumerAnswer:
        """A member joins, stays or leaves. ``counts``: partitions of every topic of the group."""
        refusal = self._refusal(heartbeat)
        if refusal is not None:
            return ConsumerAnswer(refusal=refusal, member=heartbeat.who.member)
        if heartbeat.epoch < JOINS:
            return self._leave(heartbeat)
        member = self._joined(heartbeat) if heartbeat.epoch == JOINS else self._of(heartbeat)
        changed = member.take(heartbeat) or heartbeat.epoch == JOINS
        if changed or counts != self._counts:
            self._counts = dict(counts)
            self.epoch += 1
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
        del self.members[member.who.member]
        if member.who.instance is not None:
            self._instances.pop(member.who.instance, None)
        self._removed.append(member.who.member)
        self.epoch += 1

    # --- what ----------------------------------------------------------------------------------

    def _decide(self) -> None:
        """A target for every member, when members or topics have changed."""
        if self.epoch <= self.target_epoch:
            return
        wishes = Counter(m.assignor for m in self.members.values() if m.assignor)
        self.assignor = max(sorted(wishes), key=lambda a: wishes[a], default=DEFAULT_ASSIGNOR)
        subscriptions = {name: member.topics for name, member in self.members.items()}
        self.target = ASSIGNORS[self.assignor](subscriptions, self._counts, self.target)
        self.target_epoch = self.epoch

    def _reconcile(self, now_s: float, member: ConsumerMember, owned: Parts | None) -> None:
        """Bring a member nearer to its target: first it gives back, then it is given."""
        if member.revoking:
            if owned is None or owned & member.revoking:
                return
            # A new epoch, also if it has to give back more: late commits from before must not fit.
            member.advance(member.revoke_epoch, member.assigned, waits=True)
        if member.epoch == self.target_epoch and not member.waits:
            return
        target = self.target.get(member.who.member, frozenset())
        surplus = member.assigned - target
        if surplus and member.epoch > JOINS:
            member.revoke(surplus, self.target_epoch, now_s + member.rebalance_s)
            return
        kept = member.assigned & target
        wanted = target - kept
        others = self._held_by_others(member) if wanted else frozenset()
        free = wanted - others
        member.advance(self.target_epoch, kept | free, waits=free != wanted)

    def _held_by_others(self, member: ConsumerMember) -> frozenset[TopicPart]:
        others = (other.holds for other in self.members.values() if other is not member)
        return frozenset[TopicPart]().union(*others)


def _fence(member: ConsumerMember, heartbeat: ConsumerHeartbeat) -> Refusal | None:
    """The last answer may be lost, so the epoch before counts if the member claims nothing else."""
    if heartbeat.epoch == member.epoch:
        return None
    owned = heartbeat.owned
    again = heartbeat.epoch == member.previous_epoch and owned is not None
    if again and owned is not None and owned <= member.assigned:
        return None
    return Refusal.FENCED_MEMBER_EPOCH

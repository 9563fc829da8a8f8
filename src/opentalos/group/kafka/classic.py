"""ClassicGroup: members of a group of Kafka clients that assign partitions themselves; pure.

Every method has the time as its argument. Joins and syncs are answered later: what happened is in
``take_events``, after each call.

Source: Apache Kafka 4.3, protocol guide; KIP-62 (sessions), KIP-134 (initial delay), KIP-345
(static members), KIP-394 (ids first), KIP-814 (a static leader that returns).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from opentalos.group.kafka.classic_member import (
    Answer,
    ClassicMember,
    Events,
    GivenId,
    ProtocolNames,
    Ticket,
    memory_of,
)
from opentalos.group.kafka.values import (
    DescribedGroup,
    DescribedMember,
    GroupState,
    JoinedMember,
    JoinOutcome,
    JoinRequest,
    MemberId,
    Proposal,
    Refusal,
    SyncOutcome,
    SyncRequest,
)
from opentalos.model.settings.kafka import KafkaGroupLimits


class ClassicGroup:
    """Members, generation and assignments of one group.

    At most one generation is current, and every member that gets an assignment gets the one that
    the leader of that generation decided.
    """

    def __init__(self, limits: KafkaGroupLimits) -> None:
        self._limits = limits
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol = ""
        self.leader = ""
        self._members: dict[str, ClassicMember] = {}
        self._named = ProtocolNames()
        self._pending: dict[str, GivenId] = {}
        self._instances: dict[str, str] = {}
        self.proposed: Proposal | None = None
        self._delay_until_s = -math.inf
        self._join_until_s = self._sync_until_s = math.inf
        self._events = Events()

    def take_events(self) -> Events:
        """What happened since the last call."""
        events, self._events = self._events, Events()
        return events

    @property
    def members(self) -> Mapping[str, ClassicMember]:
        """All members, by id."""
        return self._members

    @property
    def memory_bytes(self) -> int:
        """What members and assignments take."""
        return memory_of(self._members.values(), len(self._pending), self.proposed)

    @property
    def idle(self) -> bool:
        """Nothing has to be remembered."""
        return not self._members and not self._pending

    def deadline_s(self) -> float:
        """When ``tick`` has something to do; infinity: never."""
        moments = [*(given.until_s for given in self._pending.values()), self._sync_until_s]
        moments += [m.expires_s for m in self._members.values() if not m.waits]
        if self.state is GroupState.PREPARING:
            moments.append(self._delay_until_s if self._all_joined() else self._join_until_s)
        return min(moments)

    def tick(self, now_s: float) -> None:
        """Sessions that ended, members that did not come in time, rebalances that are complete."""
        self._pending = {name: it for name, it in self._pending.items() if it.until_s > now_s}
        late, members = self._sync_until_s <= now_s, self._members.values()
        gone = [m for m in members if m.expired(now_s) or (late and not m.synced)]
        if late:
            self._sync_until_s = math.inf
        self._remove(now_s, gone)
        self._complete_join(now_s)

    # --- join ------------------------------------------------------------------------------------

    def join(self, now_s: float, request: JoinRequest, ticket: Ticket) -> None:
        """A member joins, or joins again. Answered once the generation begins."""
        refusal = self._unfit(request)
        if refusal is None:
            if request.who.member:
                refusal = self._join_known(now_s, request, ticket)
            else:
                refusal = self._join_new(now_s, request, ticket)
        if refusal is not None:
            self._answer(ticket, JoinOutcome(refusal=refusal, member=request.who.member))
        self._complete_join(now_s)

    def _unfit(self, request: JoinRequest) -> Refusal | None:
        limits = self._limits
        if not limits.session_min_s <= request.session_s <= limits.session_max_s:
            return Refusal.INVALID_SESSION_TIMEOUT
        if not request.protocol_type or not request.protocols:
            return Refusal.INCONSISTENT_GROUP_PROTOCOL
        if not request.is_small(limits.metadata_bytes_max):
            return Refusal.INVALID_REQUEST
        own = self._members.get(self._own_id(request.who))
        former = () if own is None else tuple(own.protocols)
        others = len(self._members) - (own is not None)
        fits = self._named.fit(request.protocols, former, others)
        if others and not (fits and request.protocol_type == self.protocol_type):
            return Refusal.INCONSISTENT_GROUP_PROTOCOL
        return None

    def _own_id(self, who: MemberId) -> str:
        """The member that the caller is or replaces."""
        if not who.member and who.instance is not None:
            return self._instances.get(who.instance, "")
        return who.member

    def _join_new(self, now_s: float, request: JoinRequest, ticket: Ticket) -> Refusal | None:
        instance = request.who.instance
        if instance is not None and instance in self._instances:
            self._replace(now_s, request, ticket)
            return None
        if len(self._members) + len(self._pending) >= self._limits.members_max:
            return Refusal.GROUP_MAX_SIZE_REACHED
        if instance is None and request.ids_required:
            given = GivenId(now_s + request.session_s, request.connection)
            self._pending[request.fresh_id] = given
            outcome = JoinOutcome(refusal=Refusal.MEMBER_ID_REQUIRED, member=request.fresh_id)
            self._answer(ticket, outcome)
            return None
        self._add(now_s, request, request.fresh_id, ticket)
        return None

    def _join_known(self, now_s: float, request: JoinRequest, ticket: Ticket) -> Refusal | None:
        who = request.who
        if self._pending.pop(who.member, None) is not None:
            if who.instance is not None and who.instance in self._instances:
                return Refusal.FENCED_INSTANCE_ID
            self._add(now_s, request, who.member, ticket)
            return None
        refusal = self._identify(who)
        if refusal is not None:
            return refusal
        member = self._members[who.member]
        changed = member.protocols != dict(request.protocols)
        leads = who.member == self.leader
        again = changed or (leads and self.state is GroupState.STABLE)
        if self.state is not GroupState.PREPARING and not again:
            self._update(member, request)
            member.revive(now_s)
            self._answer(ticket, self._joined(member))
            return None
        self._update(member, request)
        self._await_join(member, ticket)
        if self.state is not GroupState.PREPARING:
            self._prepare(now_s)
        return None

    def _add(self, now_s: float, request: JoinRequest, member_id: str, ticket: Ticket) -> None:
        if not self._members:
            self.protocol_type = request.protocol_type
        who = MemberId(member_id, request.who.instance)
        member = ClassicMember(
            who,
            request.client_id,
            request.host,
            request.session_s,
            self._rebalance_s(request),
            dict(request.protocols),
            connection=request.connection,
            memory_bytes=request.memory_bytes,
        )
        self._members[member_id] = member
        self._named.add(member.protocols)
        if who.instance is not None:
            self._instances[who.instance] = member_id
        self.leader = self.leader or member_id
        self._await_join(member, ticket)
        if self.state is GroupState.PREPARING:
            # The first rebalance waits on while members keep coming.
            if self._delay_until_s > now_s:
                later_s = now_s + self._limits.initial_delay_s
                self._delay_until_s = min(later_s, self._join_until_s)
        else:
            self._prepare(now_s)

    def _replace(self, now_s: float, request: JoinRequest, ticket: Ticket) -> None:
        """A static member returns under a new id; the former one is fenced."""
        instance = request.who.instance or ""
        old_id = self._instances[instance]
        member = self._members[old_id]
        self._dismiss(member, Refusal.FENCED_INSTANCE_ID)
        self._events.removed.append(old_id)
        unchanged = member.protocols == dict(request.protocols)
        new_id = request.fresh_id
        member.rename(new_id)
        # In place, so that the order in which members vote stays.
        self._members = {
            new_id if name == old_id else name: found for name, found in self._members.items()
        }
        self._instances[instance] = new_id
        led = self.leader == old_id
        if led:
            self.leader = new_id
        self._update(member, request)
        if self.state is GroupState.STABLE and unchanged:
            member.revive(now_s)
            outcome = self._joined(member)
            if led:
                # It must not decide again: no other member would learn of it.
                outcome = outcome.of_returned_leader(old_id, request.skips)
            self._answer(ticket, outcome)
            return
        self._await_join(member, ticket)
        if self.state is not GroupState.PREPARING:
            self._prepare(now_s)

    def _update(self, member: ClassicMember, request: JoinRequest) -> None:
        self._named.remove(member.protocols)
        member.update(request, self._rebalance_s(request))
        self._named.add(member.protocols)
        if len(self._members) == 1:
            self.protocol_type = request.protocol_type

    def _rebalance_s(self, request: JoinRequest) -> float:
        return min(max(request.rebalance_s, 0.0), self._limits.rebalance_max_s)

    def _await_join(self, member: ClassicMember, ticket: Ticket) -> None:
        self._dismiss(member, Refusal.REBALANCE_IN_PROGRESS)
        member.await_join(ticket)

    # --- rebalance -------------------------------------------------------------------------------

    def _prepare(self, now_s: float) -> None:
        """Wait for all members to join the next generation."""
        longest_s = max(member.rebalance_s for member in self._members.values())
        self._delay_until_s = -math.inf
        if self.state is GroupState.EMPTY:
            self._delay_until_s = now_s + min(self._limits.initial_delay_s, longest_s)
        for member in self._members.values():
            if member.syncing is not None:
                member.revive(now_s)
                refused = SyncOutcome(refusal=Refusal.REBALANCE_IN_PROGRESS)
                self._answer(member.take_sync(), refused)
            member.expect_sync(False)
        self._propose(None)
        self.state = GroupState.PREPARING
        self._join_until_s, self._sync_until_s = now_s + longest_s, math.inf

    def _all_joined(self) -> bool:
        members = self._members.values()
        return not self._pending and all(member.joining is not None for member in members)

    def _complete_join(self, now_s: float) -> None:
        if self.state is not GroupState.PREPARING:
            return
        early = now_s >= self._delay_until_s and self._all_joined()
        if not early and now_s < self._join_until_s:
            return
        for member in list(self._members.values()):
            if member.joining is None and member.who.instance is None:
                self._forget(member)
        joined = [member for member in self._members.values() if member.joining is not None]
        if not joined and self._members:  # static ones, which may still return
            self._join_until_s = now_s + max(m.rebalance_s for m in self._members.values())
            return
        if self.leader not in self._members or self._members[self.leader].joining is None:
            self.leader = joined[0].who.member if joined else ""
        self.generation += 1
        self._join_until_s = math.inf
        if not joined:
            self._empty()
            return
        self.protocol = self._elected()
        self.state = GroupState.COMPLETING
        self._sync_until_s = now_s + max(member.rebalance_s for member in joined)
        for member in self._members.values():
            member.expect_sync(True)
            if member.joining is not None:
                member.revive(now_s)
                self._answer(member.take_join(), self._joined(member))

    def _elected(self) -> str:
        """The protocol that all have and most prefer; the first one named if as many prefer it."""
        shared, members = self._named.of_all(len(self._members)), self._members.values()
        votes = Counter(next(name for name in m.protocols if name in shared) for m in members)
        return max(votes, key=lambda name: votes[name])

    def _joined(self, member: ClassicMember) -> JoinOutcome:
        leads = member.who.member == self.leader
        members = self._members.values() if leads else ()
        return JoinOutcome(
            member=member.who.member,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader,
            members=tuple(JoinedMember(m.who, m.protocols[self.protocol]) for m in members),
        )

    # --- sync ------------------------------------------------------------------------------------

    def sync(self, now_s: float, request: SyncRequest, ticket: Ticket) -> None:
        """A member asks for its assignment. Answered once the leader's decision was granted."""
        refusal = self._sync_refusal(request)
        if refusal is not None:
            self._answer(ticket, SyncOutcome(refusal=refusal))
            return
        member = self._members[request.who.member]
        member.expect_sync(False)
        if self.state is GroupState.STABLE:
            member.revive(now_s)
            self._answer(ticket, self._assigned(member))
            return
        if member.syncing is not None:
            refused = SyncOutcome(refusal=Refusal.REBALANCE_IN_PROGRESS)
            self._answer(member.syncing, refused)
        member.await_sync(ticket)
        if member.who.member == self.leader and self.proposed is None:
            decided = {name: request.assignments.get(name, b"") for name in self._members}
            self._propose(Proposal(self.generation, decided))

    def _sync_refusal(self, request: SyncRequest) -> Refusal | None:
        refusal = self._check(request.who, request.generation)
        if refusal is not None:
            return refusal
        asked = (request.protocol_type or self.protocol_type, request.protocol or self.protocol)
        if asked != (self.protocol_type, self.protocol):
            return Refusal.INCONSISTENT_GROUP_PROTOCOL
        if self.state is GroupState.PREPARING:
            return Refusal.REBALANCE_IN_PROGRESS
        most = self._limits.assignment_bytes_max
        if max(map(len, request.assignments.values()), default=0) > most:
            return Refusal.INVALID_REQUEST
        return None

    def granted(self, now_s: float, proposal: Proposal, *, done: bool) -> None:
        """The proposal was granted in the rows, or could not be: then all join again."""
        if proposal is not self.proposed or self.state is not GroupState.COMPLETING:
            return
        if not done:
            for member in self._members.values():
                if member.syncing is not None:
                    member.revive(now_s)
                    refused = SyncOutcome(refusal=Refusal.COORDINATOR_NOT_AVAILABLE)
                    self._answer(member.take_sync(), refused)
            self._prepare(now_s)
            return
        self._propose(None)
        self.state = GroupState.STABLE
        for member in self._members.values():
            member.assign(proposal.assignments.get(member.who.member, b""))
        for member in self._members.values():
            if member.syncing is not None:
                member.revive(now_s)
                self._answer(member.take_sync(), self._assigned(member))

    def _assigned(self, member: ClassicMember) -> SyncOutcome:
        return SyncOutcome(
            protocol_type=self.protocol_type, protocol=self.protocol, assignment=member.assignment
        )

    # --- life of a member ------------------------------------------------------------------------

    def heartbeat(self, now_s: float, who: MemberId, generation: int) -> Refusal | None:
        """A member is alive. REBALANCE_IN_PROGRESS: it has to join again."""
        refusal = self._check(who, generation)
        if refusal is None:
            self._members[who.member].revive(now_s)
            if self.state is GroupState.PREPARING:
                return Refusal.REBALANCE_IN_PROGRESS
        return refusal

    def check_commit(self, now_s: float, who: MemberId, generation: int) -> Refusal | None:
        """Like ``check``; it counts as a heartbeat."""
        if self._check(who, generation) is None:
            self._members[who.member].revive(now_s)
        return self.check(who, generation)

    def check(self, who: MemberId, generation: int) -> Refusal | None:
        """Whether a member of the generation may commit now."""
        refusal = self._check(who, generation)
        if refusal is None and self.state is GroupState.COMPLETING:
            return Refusal.REBALANCE_IN_PROGRESS
        return refusal

    def _check(self, who: MemberId, generation: int) -> Refusal | None:
        """Whether the caller is a member of the current generation."""
        refusal = self._identify(who)
        if refusal is None and generation != self.generation:
            return Refusal.ILLEGAL_GENERATION
        return refusal

    def leave(self, now_s: float, leaving: Sequence[MemberId]) -> Sequence[Refusal | None]:
        """Members leave; a static one may be named by its instance alone."""
        outcomes: list[Refusal | None] = []
        gone: dict[ClassicMember, None] = {}
        for who in leaving:
            if who.instance is None and self._pending.pop(who.member, None) is not None:
                outcomes.append(None)
                continue
            if who.instance is not None and not who.member:
                who = MemberId(self._instances.get(who.instance, ""), who.instance)
            refusal = self._identify(who)
            member = self._members.get(who.member)
            if refusal is None and member is not None:
                gone[member] = None
            outcomes.append(refusal)
        self._remove(now_s, list(gone))
        self._complete_join(now_s)
        return outcomes

    def disconnected(self, now_s: float, connection: object) -> None:
        """A connection ended: members that have been in no generation go, and unused ids."""
        given = self._pending.items()
        self._pending = {name: it for name, it in given if it.connection is not connection}
        self._remove(now_s, [m for m in self._members.values() if m.connection is connection])
        self._complete_join(now_s)

    def describe(self) -> DescribedGroup:
        """As tools see it."""
        members = [
            DescribedMember(
                m.who, m.client_id, m.host, m.protocols.get(self.protocol, b""), m.assignment
            )
            for m in self._members.values()
        ]
        return DescribedGroup(self.state, self.protocol_type, self.protocol, members)

    # --- inside ----------------------------------------------------------------------------------

    def _identify(self, who: MemberId) -> Refusal | None:
        if who.instance is not None:
            current = self._instances.get(who.instance)
            if current is not None and current != who.member:
                return Refusal.FENCED_INSTANCE_ID
            if current is None:
                return Refusal.UNKNOWN_MEMBER_ID
        return None if who.member in self._members else Refusal.UNKNOWN_MEMBER_ID

    def _dismiss(self, member: ClassicMember, refusal: Refusal) -> None:
        """Answer what waits for the member under its present id."""
        if member.joining is not None:
            refused = JoinOutcome(refusal=refusal, member=member.who.member)
            self._answer(member.take_join(), refused)
        if member.syncing is not None:
            self._answer(member.take_sync(), SyncOutcome(refusal=refusal))

    def _forget(self, member: ClassicMember) -> None:
        self._dismiss(member, Refusal.UNKNOWN_MEMBER_ID)
        del self._members[member.who.member]
        self._named.remove(member.protocols)
        if member.who.instance is not None:
            del self._instances[member.who.instance]
        self._events.removed.append(member.who.member)
        if self.leader == member.who.member:
            self.leader = next(iter(self._members), "")

    def _remove(self, now_s: float, gone: Sequence[ClassicMember]) -> None:
        if not gone:
            return
        for member in gone:
            self._forget(member)
        if not self._members:
            if self.state is not GroupState.PREPARING:
                self.generation += 1
                self._empty()
        elif self.state is not GroupState.PREPARING:
            self._prepare(now_s)

    def _empty(self) -> None:
        self.state = GroupState.EMPTY
        self.protocol = self.leader = ""
        self._propose(None)
        self._join_until_s = self._sync_until_s = math.inf

    def _propose(self, proposal: Proposal | None) -> None:
        self.proposed = proposal
        self._events.propose(proposal)

    def _answer(self, ticket: Ticket, outcome: JoinOutcome | SyncOutcome) -> None:
        self._events.answers.append(Answer(ticket, outcome))

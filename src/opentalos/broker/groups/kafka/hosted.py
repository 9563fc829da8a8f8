"""HostedGroup: one group of Kafka clients at its coordinator, with who waits and who holds what."""

import asyncio
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from weakref import WeakSet

from opentalos.broker.groups.kafka.consumer_protocol import (
    CONSUMER,
    SHORT_BYTES,
    assigned_partitions,
)
from opentalos.broker.groups.kafka.member_bytes import MemberBytes
from opentalos.broker.long_work import SHORT_ITEMS, LongWork
from opentalos.broker.values import Topic
from opentalos.group.directory import GroupUser
from opentalos.group.kafka.classic import ClassicGroup
from opentalos.group.kafka.leases import KafkaLeases, Seat, worker_of
from opentalos.group.kafka.values import (
    DescribedGroup,
    GroupState,
    JoinOutcome,
    JoinRequest,
    MemberId,
    Proposal,
    Refusal,
    SyncOutcome,
    SyncRequest,
    member_of,
)
from opentalos.log.scheduling.read_waiters import WakeUps
from opentalos.model.errors import PartitionNotServing, TalosError
from opentalos.model.identity import Principal
from opentalos.wire.kafka.pace import Pace

_LOG = logging.getLogger("opentalos.group")
_LOOKUP_ITEMS = 16  # finding a topic takes as long as so many partitions
_BYTES_PER_ITEM = 16  # reading so many bytes does, too, as one
GRANTS_BEGUN = 2  # of so many partitions, in one pass of the loop
GRANTED_AT_ONCE = 32  # partitions, each of which is a write
LOOKED_UP_AT_ONCE = 128  # topics
CLASSIC_TYPE = "classic"
CONSUMER_TYPE = "consumer"
O = TypeVar("O", JoinOutcome, SyncOutcome)  # noqa: E741


class GroupName(NamedTuple):
    """A group of a tenant, on all its topics."""

    tenant: str
    name: str


class GroupConnection:
    """A connection of a client, and the groups that it joined. Made by gateways."""

    def __init__(self) -> None:
        self._groups: WeakSet[HostedGroup] = WeakSet()  # those that still have members
        self.closed = False

    def joins(self, group: "HostedGroup") -> None:
        """A member joins on it."""
        self._groups.add(group)

    def close(self) -> None:
        """It ended: members go that have not been in a generation."""
        self.closed = True
        for group in list(self._groups):
            group.disconnected(self)


@dataclass(slots=True, eq=False)
class Holder:
    """A member: on whose behalf it reads, from where, and which partitions it was given."""

    caller: Principal
    address: str
    held: dict[GroupUser, set[int]] = field(default_factory=dict)

    def seen(self, caller: Principal, address: str) -> None:
        """It called again, perhaps from elsewhere."""
        self.caller, self.address = caller, address

    def holds(self, user: GroupUser, partition: int) -> bool:
        """Whether it was given the partition and nobody else since."""
        return partition in self.held.get(user, ())

    def gained(self, user: GroupUser, partitions: Sequence[int]) -> None:
        """It was given partitions."""
        self.held.setdefault(user, set()).update(partitions)

    def lost(self, user: GroupUser, partition: int) -> None:
        """Another one was given it."""
        self.held.get(user, set()).discard(partition)


class Hosted(Protocol):
    """A group with members, of either protocol."""

    name: GroupName
    holders: dict[str, Holder]
    forgotten: bool

    def check_commit(self, who: MemberId, generation: int) -> Refusal | None: ...
    def seat_of(self, who: MemberId, generation: int | None = None) -> Seat: ...
    def forget(self) -> None: ...
    def gained(self, holder: Holder, user: GroupUser, partitions: Sequence[int]) -> None: ...
    async def describe(self) -> DescribedGroup: ...
    @property
    def idle(self) -> bool: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def state(self) -> GroupState: ...
    @property
    def protocol_type(self) -> str: ...
    @property
    def type(self) -> str: ...


class Surroundings(Protocol):
    """What a group needs of its server; ``groups.py`` has it.

    ``work``: what is long takes its turn there. ``wake_ups``: who gets an answer continues there.
    ``topic_user``: the topic of a name and the group on it, if the caller may read it, else None.
    ``is_elsewhere``: whether a worker id is of a live member of another group. ``spawn``: a task
    that ends with the server. ``changed``: the group's members may have changed.
    """

    leases: KafkaLeases
    memory: MemberBytes
    wake_ups: WakeUps
    work: LongWork

    def find(self, name: GroupName) -> Hosted | None: ...
    def topic_user(
        self, caller: Principal, name: str, topic: str
    ) -> tuple[Topic, GroupUser] | None: ...
    def is_elsewhere(self, worker: str, group: object) -> bool: ...
    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None: ...
    def changed(self, group: Hosted) -> None: ...


class Timed(Protocol):
    """A state machine of a group, of either protocol. Times are the loop's.

    ``check``: whether a member of the generation, or in the epoch, may commit now.
    """

    @property
    def memory_bytes(self) -> int: ...
    def check(self, who: MemberId, generation: int) -> Refusal | None: ...
    def deadline_s(self) -> float: ...
    def tick(self, now_s: float) -> None: ...


M = TypeVar("M", bound=Timed)


class HostedMembers(ABC, Generic[M]):
    """What groups of both protocols share: who holds what, and the timer of the state machine."""

    def __init__(self, name: GroupName, machine: M, around: Surroundings) -> None:
        self.name, self.machine = name, machine
        self._around = around
        self.holders: dict[str, Holder] = {}  # by member id
        self._given: dict[tuple[GroupUser, int], Holder] = {}  # to whom last
        self.forgotten = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    @property
    @abstractmethod
    def type(self) -> str:
        """Which protocol decides who is a member."""

    @abstractmethod
    def settle(self) -> None:
        """Act on what the state machine decided."""

    def seat_of(self, who: MemberId, generation: int | None = None) -> Seat:
        """The member as rows know it, while it is in the generation if one is given."""

        def current() -> bool:
            return generation is None or self.machine.check(who, generation) is None

        return Seat(
            worker=worker_of(who.member),
            address=self.holders[who.member].address,
            may_take=self._may_take,
            server_assigns=self.type == CONSUMER_TYPE,
            current=current,
        )

    @property
    def memory_bytes(self) -> int:
        """What members and assignments take."""
        return self.machine.memory_bytes

    def _no_room(self, growth: int) -> str:
        """Why members may not take so many bytes more; empty: they may."""
        reason = self._around.memory.refusal(self.name.tenant, growth)
        if reason:
            self.settle()  # a group that was made for a member that is refused
        return reason

    def forget(self) -> None:
        """Another server coordinates the group: its rows are left alone."""
        self.forgotten = True
        if self._timer is not None:
            self._timer.cancel()

    def _release(self, members: Iterable[str]) -> None:
        """They are no members any more: others may have what they held."""
        gone = {member: self.holders.pop(member, None) for member in members}
        held = {member: holder.held for member, holder in gone.items() if holder and holder.held}
        for holder in gone.values():
            if holder is not None:
                self._forget_given(holder)
        if held:
            self._around.spawn(self._released(held), f"release partitions of {self.name.name}")

    async def _released(self, held: Mapping[str, Mapping[GroupUser, Collection[int]]]) -> None:
        """Members are gone, and others may have their partitions."""
        work, releases = self._around.work, list[tuple[str, GroupUser, Sequence[int]]]()
        for member, by_user in held.items():
            for user, partitions in by_user.items():
                async for some in work.pieces(sorted(partitions), GRANTED_AT_ONCE):
                    releases.append((member, user, some))
        async for each in work.pieces(releases):
            await work.gather([self._released_some(*it) for it in each], GRANTS_BEGUN)

    async def _released_some(self, member: str, user: GroupUser, partitions: Sequence[int]) -> None:
        def is_gone() -> bool:
            # One that is back, perhaps in a group that was made again, may have some of them again.
            # What it has not is taken from it, as from any member.
            present = self._around.find(self.name)
            return present is None or member not in present.holders

        try:
            await self._around.leases.release(user, worker_of(member), partitions, is_gone)
        except TalosError as error:  # its leases expire
            _LOG.warning("could not release partitions of member %s: %s", member, error)

    async def _give(
        self,
        member: str,
        user: GroupUser,
        partitions: Sequence[int],
        current: Callable[[], bool],
    ) -> None:
        """Give a few partitions to a member while ``current()``."""
        holder = self.holders.get(member)
        if holder is None:  # it left meanwhile
            return
        seat = self.seat_of(MemberId(member))
        granted = await self._around.leases.assign(user, seat, partitions, current)
        self.gained(holder, user, granted)
        if granted and self.holders.get(member) is not holder:
            self._forget_given(holder)
            await self._released_some(member, user, granted)

    def gained(self, holder: Holder, user: GroupUser, partitions: Sequence[int]) -> None:
        """A member was given partitions, which whoever had them before has lost."""
        for partition in partitions:
            before = self._given.get((user, partition))
            if before is not None and before is not holder:
                before.lost(user, partition)
            self._given[user, partition] = holder
        holder.gained(user, partitions)

    def _forget_given(self, holder: Holder) -> None:
        """It is no member any more."""
        for user, partitions in holder.held.items():
            for partition in partitions:
                if self._given.get((user, partition)) is holder:
                    del self._given[user, partition]

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_s = self.machine.deadline_s()
        if due_s < math.inf and not self.forgotten:
            self._timer = self._loop.call_at(due_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        # A timer may fire a little early.
        self.machine.tick(max(self._loop.time(), self.machine.deadline_s()))
        self.settle()

    def _may_take(self, owner: str) -> bool:
        return owner.startswith(worker_of("")) and not self._around.is_elsewhere(owner, self)


class HostedGroup(HostedMembers[ClassicGroup]):
    """Drives the state machine of one group: timers, answers, and grants in the rows."""

    def __init__(self, name: GroupName, machine: ClassicGroup, around: Surroundings) -> None:
        super().__init__(name, machine, around)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tickets = 0

    # --- calls -----------------------------------------------------------------------------------

    async def join(self, caller: Principal, request: JoinRequest) -> JoinOutcome:
        """Returns once the generation begins."""
        before = member_of(self.machine.members, request.who)
        if self._no_room(request.memory_bytes - (before.memory_bytes if before else 0)):
            refusal = Refusal.GROUP_MAX_SIZE_REACHED
            return JoinOutcome(refusal=refusal, member=request.who.member)
        joining = Holder(caller, request.host)
        ticket, answer = self._expect(JoinOutcome)
        self.machine.join(self._loop.time(), request, ticket)
        for member in self.machine.members:
            # New ids appear with the join, also where it replaces a static member.
            known = self.holders.setdefault(member, joining)
            if member == request.who.member and known is not joining:
                known.seen(caller, request.host)
        self.settle()
        return await answer

    async def sync(self, request: SyncRequest) -> SyncOutcome:
        """Returns once the leader's decision was granted."""
        if self._no_room(self._decided_bytes(request)):
            return SyncOutcome(refusal=Refusal.GROUP_MAX_SIZE_REACHED)
        ticket, answer = self._expect(SyncOutcome)
        self.machine.sync(self._loop.time(), request, ticket)
        self.settle()
        outcome = await answer
        if outcome.refusal is None and not await self._granted_again(request, outcome):
            return SyncOutcome(refusal=Refusal.COORDINATOR_NOT_AVAILABLE)
        return outcome

    def _decided_bytes(self, request: SyncRequest) -> int:
        """What the leader's decision takes: it decides once, so a repeat takes nothing."""
        machine = self.machine
        undecided = machine.state is GroupState.COMPLETING and machine.proposed is None
        if not undecided or request.who.member != machine.leader:
            return 0
        return sum(len(request.assignments.get(member, b"")) for member in machine.members)

    def heartbeat(self, who: MemberId, generation: int) -> Refusal | None:
        """A member is alive."""
        refusal = self.machine.heartbeat(self._loop.time(), who, generation)
        self._schedule()  # no member comes or goes by it
        return refusal

    def disconnected(self, connection: object) -> None:
        """A connection ended, and with it members that have not been in a generation."""
        if not self.forgotten:
            self.machine.disconnected(self._loop.time(), connection)
            self.settle()

    def leave(self, leaving: Sequence[MemberId]) -> Sequence[Refusal | None]:
        """Members leave."""
        outcomes = self.machine.leave(self._loop.time(), leaving)
        self.settle()
        return outcomes

    def check_commit(self, who: MemberId, generation: int) -> Refusal | None:
        """Whether a member may commit; it counts as a heartbeat."""
        refusal = self.machine.check_commit(self._loop.time(), who, generation)
        self._schedule()
        return refusal

    def forget(self) -> None:
        """Another server coordinates the group; who waits asks there."""
        super().forget()
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(PartitionNotServing("the consumer group moved"))

    # --- inside ----------------------------------------------------------------------------------

    def _expect(self, kind: type[O]) -> "tuple[int, asyncio.Future[O]]":
        self._tickets += 1
        answer: asyncio.Future[O] = self._loop.create_future()
        self._waiting[self._tickets] = answer
        return self._tickets, answer

    def settle(self) -> None:
        """Hand out answers, begin grants, release what members leave, set the timer."""
        events = self.machine.take_events()
        answers = [(self._waiting.pop(ticket, None), it) for ticket, it in events.answers]
        self._around.wake_ups.settle(self, [(answer, it) for answer, it in answers if answer])
        self._release(events.removed)
        if events.proposal is not None:
            self._around.spawn(self._grant(events.proposal), f"grant to group {self.name.name}")
        self._around.changed(self)
        self._schedule()

    async def _grant(self, proposal: Proposal) -> None:
        """Give every member its partitions; then, and only then, they are published."""
        done = False
        try:
            await self._assign(proposal.generation, proposal.assignments)
            done = True
        except TalosError as error:
            _LOG.warning(
                "could not grant generation %d of group %s: %s",
                proposal.generation,
                self.name.name,
                error,
            )
        finally:
            if not self.forgotten:
                self.machine.granted(self._loop.time(), proposal, done=done)
                self.settle()

    async def _granted_again(self, request: SyncRequest, outcome: SyncOutcome) -> bool:
        """A member that returns within a generation may have lost leases, by a reset say."""
        try:
            assignment = {request.who.member: outcome.assignment}
            await self._assign(request.generation, assignment)
        except TalosError as error:
            _LOG.warning("could not grant to member %s: %s", request.who.member, error)
            return False
        return True

    async def _assign(self, generation: int, assignments: Mapping[str, bytes]) -> None:
        if self.machine.protocol_type != CONSUMER:
            return
        work, given = self._around.work, set[tuple[str, int]]()
        grants: list[tuple[int, str, GroupUser, Sequence[int]]] = []
        spent = 0
        for member, assignment in assignments.items():
            spent += len(assignment) // _BYTES_PER_ITEM
            for topic_name, partitions in (await self._decoded(assignment)).items():
                spent += _LOOKUP_ITEMS + len(partitions)
                if spent > SHORT_ITEMS:
                    spent = 0
                    await work.pause()
                holder = self.holders.get(member)
                if holder is None:
                    break
                found = self._around.topic_user(holder.caller, self.name.name, topic_name)
                if found is None:
                    continue
                uuid, count, user = found[0].uuid, found[0].consumer_partitions, found[1]
                async for some in work.pieces(partitions):
                    # A decision that names a partition twice gives it to the first one.
                    pairs = [(uuid, p) for p in dict.fromkeys(some) if 0 <= p < count]
                    wanted = [pair[1] for pair in pairs if pair not in given]
                    given.update(pairs)
                    for start in range(0, len(wanted), GRANTED_AT_ONCE):
                        few = wanted[start : start + GRANTED_AT_ONCE]
                        grants.append((generation, member, user, few))
        async for each in work.pieces(grants):
            await work.gather([self._assign_some(*grant) for grant in each], GRANTS_BEGUN)

    async def _decoded(self, assignment: bytes) -> Mapping[str, Sequence[int]]:
        if len(assignment) <= SHORT_BYTES:
            return assigned_partitions(assignment)
        async with self._around.work.turn(self.name.tenant, patient=True) as turn:
            return await turn.in_pieces(lambda pause: assigned_partitions(assignment, Pace(pause)))

    async def _assign_some(
        self, generation: int, member: str, user: GroupUser, wanted: Sequence[int]
    ) -> None:
        def current() -> bool:
            machine = self.machine
            alive = member in self.holders and not self.forgotten
            return alive and machine.generation == generation

        await self._give(member, user, wanted, current)

    async def describe(self) -> DescribedGroup:
        """As tools see it."""
        return self.machine.describe()

    @property
    def idle(self) -> bool:
        """Nothing has to be remembered."""
        return self.machine.idle

    @property
    def state(self) -> GroupState:
        """Of the group."""
        return self.machine.state

    @property
    def protocol_type(self) -> str:
        """Of its clients."""
        return self.machine.protocol_type

    @property
    def type(self) -> str:
        """Which protocol decides who is a member."""
        return CLASSIC_TYPE

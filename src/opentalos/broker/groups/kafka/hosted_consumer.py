"""HostedConsumerGroup: one group whose assignments the server decides, at its coordinator."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from opentalos.broker.groups.group_names import user_of
from opentalos.broker.groups.kafka.consumer_protocol import CONSUMER, write_assignment
from opentalos.broker.groups.kafka.hosted import (
    CONSUMER_TYPE,
    GRANTED_AT_ONCE,
    GroupName,
    Holder,
    HostedMembers,
    Surroundings,
)
from opentalos.broker.long_work import SHORT_ITEMS
from opentalos.broker.values import Topic
from opentalos.group.directory import GroupUser
from opentalos.group.kafka.assignors import TopicPart, no_pause
from opentalos.group.kafka.consumer import ConsumerGroup
from opentalos.group.kafka.consumer_member import (
    JOINS,
    ConsumerAnswer,
    ConsumerHeartbeat,
    Parts,
)
from opentalos.group.kafka.values import (
    DescribedGroup,
    DescribedMember,
    GroupState,
    MemberId,
    Refusal,
    member_of,
)
from opentalos.model.errors import Unavailable
from opentalos.model.identity import Principal
from opentalos.wire.kafka.pace import Pace

_LOG = logging.getLogger("opentalos.group")


class ReadTopics(NamedTuple):
    """What a member reads, by uuid: topics, and their partitions."""

    topics: Mapping[str, Topic]
    counts: Mapping[str, int]


class HostedConsumerGroup(HostedMembers[ConsumerGroup]):
    """Drives the state machine of one group: timer, and grants in the rows."""

    def __init__(self, name: GroupName, machine: ConsumerGroup, around: Surroundings) -> None:
        super().__init__(name, machine, around)
        self.topics: dict[str, Topic] = {}  # by uuid
        self._deciding = False

    async def heartbeat(
        self, caller: Principal, heartbeat: ConsumerHeartbeat, read: ReadTopics
    ) -> ConsumerAnswer:
        """Returns once what the member is given is granted. ``read``: what the member reads.

        Raises: Unavailable, OutcomeUnknown: the member repeats the heartbeat.
        """
        says_more = heartbeat.names is not None or heartbeat.regex is not None
        if heartbeat.epoch == JOINS or (heartbeat.epoch > JOINS and says_more):
            known = member_of(self.machine.members, heartbeat.who)
            text = self._no_room(heartbeat.memory_bytes - (known.said_bytes if known else 0))
            if text:
                refusal, member = Refusal.GROUP_MAX_SIZE_REACHED, heartbeat.who.member
                return ConsumerAnswer(refusal=refusal, text=text, member=member)
        answer = self.machine.heartbeat(self._loop.time(), heartbeat, read.counts)
        if answer.refusal is None and answer.member in self.machine.members:
            self.topics.update(read.topics)
            holder = self.holders.setdefault(answer.member, Holder(caller, heartbeat.host))
            holder.seen(caller, heartbeat.host)
        self.settle()
        if answer.assignment:
            await self._grant(answer.member, answer.assignment)
        return answer

    def check_commit(self, who: MemberId, generation: int) -> Refusal | None:
        """Whether a member may commit."""
        return self.machine.check(who, generation)

    @property
    def type(self) -> str:
        """Which protocol decides who is a member."""
        return CONSUMER_TYPE

    @property
    def protocol_type(self) -> str:
        """Of its clients."""
        return CONSUMER

    @property
    def idle(self) -> bool:
        """Nothing has to be remembered."""
        return self.machine.idle

    @property
    def state(self) -> GroupState:
        """Of the group."""
        return self.machine.state

    async def describe(self) -> DescribedGroup:
        """As tools see it that know members with generations only."""
        described: list[DescribedMember] = []
        spent = 0
        for member in list(self.machine.members.values()):
            spent += 1 + len(member.assigned)
            if spent > SHORT_ITEMS:
                spent = 0
                await self._around.work.pause()
            assignment = await self._written(member.assigned)
            described.append(
                DescribedMember(member.who, member.client_id, member.host, b"", assignment)
            )
        return DescribedGroup(self.state, CONSUMER, self.machine.assignor, described)

    async def _written(self, parts: Parts) -> bytes:
        """An assignment as clients of the other protocol write it."""
        topics = self.topics

        def write(pause: Callable[[], None]) -> bytes:
            found: dict[str, list[int]] = {}
            named: dict[str, list[int]] = {}
            pace = Pace(pause)
            for uuid, partition in parts:
                pace.step(1)
                if uuid in topics:
                    found.setdefault(uuid, []).append(partition)
            for uuid in sorted(found):
                pace.step(1)
                named[self.topic_name(topics[uuid])] = sorted(found[uuid])
            return write_assignment(named, pace)

        if len(parts) <= SHORT_ITEMS:
            return write(no_pause)
        async with self._around.work.turn(self.name.tenant, patient=True) as turn:
            return await turn.in_pieces(write)

    def topic_name(self, topic: Topic) -> str:
        """Of a topic as any member would write it."""
        tenant = self.name.tenant
        return topic.name if topic.owner == tenant else f"{topic.owner}/{topic.name}"

    # --- inside ----------------------------------------------------------------------------------

    def settle(self) -> None:
        """Release what members leave, have a large target decided, set the timer."""
        self._release(self.machine.take_removed())
        counts = self.machine.topics.counts
        if len(self.topics) > len(counts):  # that no member reads any more
            self.topics = {uuid: topic for uuid, topic in self.topics.items() if uuid in counts}
        if self.machine.decides_later and not self._deciding:
            self._deciding = True
            self._around.spawn(self._decide(), f"assign partitions to group {self.name.name}")
        self._around.changed(self)
        self._schedule()

    async def _decide(self) -> None:
        """Decide targets until one is of the present members and topics; in pieces."""
        machine = self.machine
        try:
            while (undecided := machine.undecided()) is not None and not self.forgotten:
                async with self._around.work.turn(self.name.tenant, patient=True) as turn:
                    machine.decided(undecided, await turn.in_pieces(undecided.decide))
        except Unavailable as error:  # the server stops
            _LOG.warning("could not assign partitions to group %s: %s", self.name.name, error)
        finally:
            self._deciding = False

    async def _grant(self, member_id: str, assignment: Parts) -> None:
        holder = self.holders.get(member_id)
        if holder is None:
            return
        by_topic: dict[str, list[int]] = {}
        async for some in self._around.work.pieces(list(assignment)):
            for uuid, partition in some:
                by_topic.setdefault(uuid, []).append(partition)
        async for uuids in self._around.work.pieces(sorted(by_topic), GRANTED_AT_ONCE):
            for uuid in uuids:
                await self._grant_on(member_id, holder, uuid, by_topic[uuid])

    async def _grant_on(
        self, member_id: str, holder: Holder, uuid: str, partitions: Sequence[int]
    ) -> None:
        topic = self.topics.get(uuid)
        if topic is None:
            return
        user = user_of(holder.caller, topic, self.name.name)
        # What it has already costs no write; that others took it since may not be known here.
        async for some in self._around.work.pieces(sorted(partitions), GRANTED_AT_ONCE):
            await self._grant_some(member_id, user, some)

    async def _grant_some(self, member_id: str, user: GroupUser, partitions: Sequence[int]) -> None:
        wanted = frozenset(TopicPart(user.key.topic_uuid, number) for number in partitions)

        def current() -> bool:
            member = self.machine.members.get(member_id)
            return member is not None and not self.forgotten and wanted <= member.assigned

        if not current():  # the next heartbeat says what it has by then
            return
        await self._give(member_id, user, partitions, current)

"""HostedConsumerGroup: one group whose assignments the server decides, at its coordinator."""

from collections.abc import Mapping, Sequence

from opentalos.broker.groups.group_names import user_of
from opentalos.broker.groups.kafka.consumer_protocol import CONSUMER, write_assignment
from opentalos.broker.groups.kafka.hosted import (
    CONSUMER_TYPE,
    GroupName,
    Holder,
    HostedMembers,
    Surroundings,
    member_of,
    released,
)
from opentalos.broker.values import Topic
from opentalos.group.directory import GroupUser
from opentalos.group.kafka.assignors import TopicPart
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
)
from opentalos.model.identity import Principal


class HostedConsumerGroup(HostedMembers[ConsumerGroup]):
    """Drives the state machine of one group: timer, and grants in the rows."""

    def __init__(self, name: GroupName, machine: ConsumerGroup, around: Surroundings) -> None:
        super().__init__(name, machine, around)
        self.topics: dict[str, Topic] = {}  # by uuid

    async def heartbeat(
        self, caller: Principal, heartbeat: ConsumerHeartbeat, topics: Mapping[str, Topic]
    ) -> ConsumerAnswer:
        """Returns once what the member is given is granted. ``topics``: that the member reads.

        Raises: Unavailable, OutcomeUnknown: the member repeats the heartbeat.
        """
        says_more = heartbeat.names is not None or heartbeat.regex is not None
        if heartbeat.epoch == JOINS or (heartbeat.epoch > JOINS and says_more):
            known = member_of(self.machine.members, heartbeat.who)
            text = self._no_room(heartbeat.memory_bytes - (known.said_bytes if known else 0))
            if text:
                refusal, member = Refusal.GROUP_MAX_SIZE_REACHED, heartbeat.who.member
                return ConsumerAnswer(refusal=refusal, text=text, member=member)
        self.topics.update(topics)
        counts = self._counts(heartbeat)
        answer = self.machine.heartbeat(self._loop.time(), heartbeat, counts)
        if answer.refusal is None and answer.member in self.machine.members:
            holder = self.holders.setdefault(answer.member, Holder(caller, heartbeat.host))
            holder.seen(caller, heartbeat.host)
        self.settle()
        if answer.assignment:
            await self._grant(answer.member, answer.assignment)
        return answer

    def _counts(self, heartbeat: ConsumerHeartbeat) -> Mapping[str, int]:
        wanted = set(heartbeat.topics or ())
        for member in self.machine.members.values():
            if member.who != heartbeat.who or heartbeat.topics is None:
                wanted |= member.topics
        self.topics = {uuid: topic for uuid, topic in self.topics.items() if uuid in wanted}
        return {uuid: topic.consumer_partitions for uuid, topic in self.topics.items()}

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

    def describe(self) -> DescribedGroup:
        """As tools see it that know members with generations only."""
        members = [
            DescribedMember(
                member.who,
                member.client_id,
                member.host,
                b"",
                write_assignment(self._by_name(member.assigned)),
            )
            for member in self.machine.members.values()
        ]
        return DescribedGroup(self.state, CONSUMER, self.machine.assignor, members)

    def topic_name(self, topic: Topic) -> str:
        """Of a topic as any member would write it."""
        tenant = self.name.tenant
        return topic.name if topic.owner == tenant else f"{topic.owner}/{topic.name}"

    def _by_name(self, parts: Parts) -> Mapping[str, Sequence[int]]:
        found: dict[str, list[int]] = {}
        for uuid, partition in sorted(parts):
            if uuid in self.topics:
                found.setdefault(self.topic_name(self.topics[uuid]), []).append(partition)
        return found

    # --- inside ----------------------------------------------------------------------------------

    def settle(self) -> None:
        """Release what members leave, set the timer."""
        self._release(self.machine.take_removed())
        self._around.changed(self)
        self._schedule()

    async def _grant(self, member_id: str, assignment: Parts) -> None:
        holder = self.holders.get(member_id)
        if holder is None:
            return
        wanted: dict[GroupUser, list[int]] = {}
        uuids: dict[GroupUser, str] = {}
        for uuid, partition in sorted(assignment):
            topic = self.topics.get(uuid)
            user = user_of(holder.caller, topic, self.name.name) if topic else None
            if user is not None and not holder.holds(user, partition):
                wanted.setdefault(user, []).append(partition)
                uuids[user] = uuid
        for user, partitions in wanted.items():
            uuid = uuids[user]

            def current(uuid: str = uuid, partitions: Sequence[int] = partitions) -> bool:
                member = self.machine.members.get(member_id)
                if member is None or self.forgotten:
                    return False
                return all(TopicPart(uuid, number) in member.assigned for number in partitions)

            seat = self.seat_of(MemberId(member_id))
            granted = await self._around.leases.assign(user, seat, partitions, current)
            for other in self.holders.values():
                if other is not holder:
                    other.lost(user, granted)
            if self.holders.get(member_id) is holder:
                holder.gained(user, granted)
            elif granted:
                await released(self._around.leases, member_id, {user: set(granted)})

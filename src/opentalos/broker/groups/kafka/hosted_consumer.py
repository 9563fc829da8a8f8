"""HostedConsumerGroup: one group whose assignments the server decides, at its coordinator."""

import asyncio
import math
from collections.abc import Mapping, Sequence

from opentalos.broker.groups.group_names import user_of
from opentalos.broker.groups.kafka.consumer_protocol import CONSUMER, write_assignment
from opentalos.broker.groups.kafka.hosted import (
    GroupName,
    Holder,
    Surroundings,
    released,
)
from opentalos.broker.values import Topic
from opentalos.group.directory import GroupUser
from opentalos.group.kafka.assignors import TopicPart
from opentalos.group.kafka.consumer import ConsumerGroup
from opentalos.group.kafka.consumer_member import ConsumerAnswer, ConsumerHeartbeat, Parts
from opentalos.group.kafka.leases import Seat, worker_of
from opentalos.group.kafka.values import (
    DescribedGroup,
    DescribedMember,
    GroupState,
    MemberId,
    Refusal,
)
from opentalos.model.identity import Principal


class HostedConsumerGroup:
    """Drives the state machine of one group: timer, and grants in the rows."""

    def __init__(self, name: GroupName, machine: ConsumerGroup, around: Surroundings) -> None:
        self.name, self.machine = name, machine
        self.holders: dict[str, Holder] = {}  # by member id
        self.forgotten = False
        self.topics: dict[str, Topic] = {}  # by uuid
        self._around = around
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    async def heartbeat(
        self, caller: Principal, heartbeat: ConsumerHeartbeat, topics: Mapping[str, Topic]
    ) -> ConsumerAnswer:
        """Returns once what the member is given is granted. ``topics``: that the member reads.

        Raises: Unavailable, OutcomeUnknown: the member repeats the heartbeat.
        """
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

    def seat_of(self, member: str) -> Seat:
        """The member as rows know it."""
        return Seat(
            worker=worker_of(member),
            address=self.holders[member].address,
            may_take=self._may_take,
        )

    def forget(self) -> None:
        """Another server coordinates the group: its rows are left alone."""
        self.forgotten = True
        if self._timer is not None:
            self._timer.cancel()

    @property
    def type(self) -> str:
        """Which protocol decides who is a member."""
        return "consumer"

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
        for member in self.machine.take_removed():
            holder = self.holders.pop(member, None)
            if holder is not None and holder.held:
                release = released(self._around.leases, member, holder.held)
                self._around.spawn(release, f"release partitions of {member}")
        self._around.changed(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_s = self.machine.deadline_s()
        if due_s < math.inf and not self.forgotten:
            self._timer = self._loop.call_at(due_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.machine.tick(max(self._loop.time(), self.machine.deadline_s()))
        self.settle()

    def _may_take(self, owner: str) -> bool:
        return owner.startswith(worker_of("")) and not self._around.is_elsewhere(owner, self)

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

            seat = self.seat_of(member_id)
            granted = await self._around.leases.assign(user, seat, partitions, current)
            for other in self.holders.values():
                if other is not holder:
                    other.lost(user, granted)
            if self.holders.get(member_id) is holder:
                holder.gained(user, granted)
            elif granted:
                await released(self._around.leases, member_id, {user: set(granted)})

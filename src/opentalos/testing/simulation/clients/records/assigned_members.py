"""Members of a Kafka group whose assignments the server decides, some of which commit too late.

A member sends heartbeats and follows what they answer: it reads what it must give back for a while
longer, says when it has stopped, and commits in its present epoch. It keeps its id for life. As
with real clients, nothing waits for commits, so they may arrive after their partition was given
back; and some are of partitions and epochs that the member has had before.
"""

import asyncio
from typing import Final, NamedTuple

from opentalos.broker.broker import Broker
from opentalos.broker.groups.kafka.offsets import Committer, OffsetToCommit
from opentalos.broker.groups.kafka.requests import (
    ConsumerAnswer,
    ConsumerHeartbeat,
    MemberId,
    Refusal,
    TopicPart,
)
from opentalos.model.identity import Permission
from opentalos.testing.simulation.clients.message_clients import RETRY_S, Client, LiveTopic
from opentalos.testing.simulation.world.world import World

GROUP: Final = "assigned-group"
JOINS: Final = 0
LEAVES: Final = -1
AWAY: Final = -1  # the epoch of a member that has not joined
REBALANCE_S: Final = 2.0
OVERSLEEPS: Final = 0.06  # of turns are longer than a session
OVERSLEPT_S: Final = 5.0
STAYS_AWAY: Final = 0.05
LATE: Final = 0.15  # of turns commit in a former epoch
COMMITS: Final = 0.4
STOPS: Final = 0.2  # of turns, in which it gives back what it must
REPEATS_ALL: Final = 0.5  # of heartbeats say what the member reads although nothing has changed


class _Tenure(NamedTuple):
    """What a member had in an epoch."""

    epoch: int
    partitions: frozenset[int]


class AssignedMember(Client):
    """One consumer; ``run`` ends what it has in flight when it is cancelled."""

    def __init__(self, world: World, name: str, topic: LiveTopic) -> None:
        super().__init__(world, name)
        self._topic = topic
        self._epoch = AWAY
        self._owned: frozenset[int] = frozenset()  # what it reads
        self._assigned: frozenset[int] = frozenset()  # what it shall read
        self._said: frozenset[int] | None = None  # what the coordinator knows that it reads
        self._former = _Tenure(AWAY, frozenset())
        self._commits: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                await self.think(0.4)
                await self._turn()
        finally:
            for commit in self._commits:
                commit.cancel()

    async def _turn(self) -> None:
        if self._owned != self._assigned and self.rng.random() < STOPS:
            self._former = _Tenure(self._epoch, self._owned)
            self._owned = self._assigned
        chance = self.rng.random()
        if self._epoch != AWAY and chance < OVERSLEEPS:
            await asyncio.sleep(OVERSLEPT_S * self.rng.random())
            self._commit_soon(_Tenure(self._epoch, self._owned))  # it does not know how it stands
        elif self._epoch != AWAY and chance < OVERSLEEPS + STAYS_AWAY:
            await self._leave()
        elif self._former.partitions and chance < OVERSLEEPS + STAYS_AWAY + LATE:
            self._commit_soon(self._former)
        elif self._owned and chance < OVERSLEEPS + STAYS_AWAY + LATE + COMMITS:
            self._commit_soon(_Tenure(self._epoch, self._owned))
        else:
            await self._beat()

    # --- heartbeats ------------------------------------------------------------------------------

    async def _beat(self) -> None:
        joins = self._epoch == AWAY
        says = joins or self._said != self._owned or self.rng.random() < REPEATS_ALL
        owned = self._owned if says else None
        answer = await self._send(JOINS if joins else self._epoch, owned)
        if answer is None:
            self._said = None  # perhaps it was not heard
            await asyncio.sleep(RETRY_S)
        elif answer.refusal is None:
            self._said = owned if owned is not None else self._said
            self._follow(answer)
        elif answer.refusal in (Refusal.FENCED_MEMBER_EPOCH, Refusal.UNKNOWN_MEMBER_ID):
            self._lose()

    def _follow(self, answer: ConsumerAnswer) -> None:
        """Take what is new once there is nothing to give back."""
        if answer.epoch != self._epoch:
            self._former = _Tenure(self._epoch, self._owned)
        self._epoch = answer.epoch
        if answer.assignment is not None:
            self._assigned = frozenset(part.partition for part in answer.assignment)
        if self._owned <= self._assigned:
            self._owned = self._assigned

    def _lose(self) -> None:
        """It is no member any more, and reads nothing."""
        self._former = _Tenure(self._epoch, self._owned)
        self._epoch, self._said = AWAY, None
        self._owned = self._assigned = frozenset()

    async def _leave(self) -> None:
        await self._send(LEAVES, None)
        self._lose()

    async def _send(self, epoch: int, owned: frozenset[int] | None) -> ConsumerAnswer | None:
        """One heartbeat; None: no answer, or one that says to come again."""
        server, topic = await self.server(), self._topic
        operation = self.world.recorder.invoke(
            self.name, "assigned-beat", group=GROUP, topic=topic.resource, server=server.name,
            epoch=epoch, owned=None if owned is None else sorted(owned),
        )  # fmt: skip
        heartbeat = ConsumerHeartbeat(
            who=MemberId(self.name),
            epoch=epoch,
            client_id=self.name,
            host="simulated",
            rebalance_s=REBALANCE_S,
            names=(topic.name,) if epoch == JOINS else None,
            owned=None
            if owned is None
            else frozenset(TopicPart(topic.uuid, partition) for partition in owned),
        )

        async def beat(broker: Broker) -> tuple[str, ConsumerAnswer]:
            members = broker.kafka_groups.consumers
            owner = topic.owner
            answer = await members.heartbeat(owner, GROUP, heartbeat, lambda each: each.name)
            return _coordinator(broker), answer

        answered = await self.ask(server, operation, beat)
        if answered is None:
            return None
        by, answer = answered
        if answer.refusal is not None:
            self.world.recorder.fail(operation, answer.refusal)
        else:
            given = answer.assignment
            shown = None if given is None else sorted(part.partition for part in given)
            self.world.recorder.ok(operation, by=by, epoch=answer.epoch, assignment=shown)
        return answer

    # --- commits ---------------------------------------------------------------------------------

    def _commit_soon(self, tenure: _Tenure) -> None:
        """Commit a position for each partition, while the member goes about its business."""
        for partition in sorted(tenure.partitions):
            commit = asyncio.create_task(self._commit(tenure.epoch, partition))
            self._commits.add(commit)
            commit.add_done_callback(self._commits.discard)

    async def _commit(self, epoch: int, partition: int) -> None:
        server, topic = await self.server(), self._topic
        offset = self.rng.randint(0, topic.reached.get(partition, 0))
        operation = self.world.recorder.invoke(
            self.name, "assigned-commit", group=GROUP, topic=topic.resource, partition=partition,
            offset=offset, epoch=epoch, server=server.name,
        )  # fmt: skip
        committer = Committer(group=GROUP, who=MemberId(self.name), generation=epoch)

        async def commit(broker: Broker) -> tuple[str, Refusal | None]:
            found = broker.context.topic(topic.owner, Permission.GET_MESSAGE, topic.resource)
            asked = [OffsetToCommit(found, partition, offset)]
            (outcome,) = await broker.kafka_groups.offsets.commit(topic.owner, committer, asked)
            if isinstance(outcome, Exception):
                raise outcome
            return _coordinator(broker), outcome

        answered = await self.ask(server, operation, commit)
        if answered is not None:
            by, refusal = answered
            if refusal is not None:
                self.world.recorder.fail(operation, refusal)
            else:
                self.world.recorder.ok(operation, by=by)


def _coordinator(broker: Broker) -> str:
    """Which process answered: a call may have been forwarded."""
    config = broker.context.config
    return f"{config.server} {config.incarnation}"


class PositionReader(Client):
    """Reads where the group continues, once every fault has ended."""

    def __init__(self, world: World, topic: LiveTopic) -> None:
        super().__init__(world, "positions")
        self._topic = topic

    async def read(self) -> None:
        """One read of all positions, at whichever server coordinates the group."""
        topic = self._topic
        for server in self.world.running():
            operation = self.world.recorder.invoke(
                self.name, "assigned-positions", group=GROUP, topic=topic.resource,
                server=server.name,
            )  # fmt: skip

            async def fetch(broker: Broker) -> dict[int, int]:
                found = broker.context.topic(topic.owner, Permission.GET_MESSAGE, topic.resource)
                positions = broker.kafka_groups.offsets.fetch
                stored = await positions(topic.owner, GROUP, found)
                return {partition: each.next_offset for partition, each in stored.items()}

            offsets = await self.ask(server, operation, fetch)
            if offsets is not None:
                pairs = [[partition, offsets[partition]] for partition in sorted(offsets)]
                self.world.recorder.ok(operation, offsets=pairs)

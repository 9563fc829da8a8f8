"""Members of a group of Kafka clients, which sometimes commit after they were replaced."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from opentalos.broker.broker import Broker
from opentalos.broker.groups.kafka.consumer_protocol import (
    CONSUMER,
    assigned_partitions,
    write_assignment,
)
from opentalos.broker.groups.kafka.offsets import Committer, OffsetToCommit
from opentalos.broker.groups.kafka.requests import (
    JoinOutcome,
    JoinRequest,
    MemberId,
    Refusal,
    SyncRequest,
)
from opentalos.model.identity import Permission
from opentalos.testing.simulation.clients.message_clients import RETRY_S, Client, LiveTopic
from opentalos.testing.simulation.world.world import World
from opentalos.wire.kafka._generated.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from opentalos.wire.kafka.codec import encode

GROUP: Final = "kafka-group"
SESSION_S: Final = 1.5
REBALANCE_S: Final = 2.0
OVERSLEEPS: Final = 0.15  # of turns are longer than a session
LEAVES: Final = 0.04


class KafkaMember(Client):
    """Joins, commits what it was assigned, and joins again once it learns that it must."""

    def __init__(self, world: World, name: str, topic: LiveTopic) -> None:
        super().__init__(world, name)
        self._topic = topic
        self._who, self._generation = MemberId(""), -1
        self._partitions: Sequence[int] = ()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.think(0.5)
            if self._generation < 0:
                await self._join()
                continue
            if self.rng.random() < OVERSLEEPS:
                await asyncio.sleep(SESSION_S * (0.5 + 3 * self.rng.random()))
                await self._commit()  # without asking first whether it is still a member
            elif self.rng.random() < LEAVES:
                await self._leave()
            elif self.rng.random() < 0.5:
                await self._commit()
            else:
                await self._beat()

    async def _join(self) -> None:
        """Join and get the assignment; as one operation, since what it grants is in the reply."""
        server = await self.server()
        operation = self.world.recorder.invoke(
            self.name, "member-join", group=GROUP, topic=self._topic.resource, server=server.name
        )

        async def join(broker: Broker) -> JoinOutcome:
            return await broker.kafka_groups.members.join(self._topic.owner, GROUP, self._request())

        joined = await self.ask(server, operation, join)
        if joined is None:
            await asyncio.sleep(RETRY_S)
            return
        if joined.refusal is not None:
            known = joined.refusal is Refusal.MEMBER_ID_REQUIRED
            self._who = MemberId(joined.member if known else "")
            self.world.recorder.fail(operation, joined.refusal)
            return
        self._who = MemberId(joined.member)
        request = SyncRequest(
            who=self._who,
            generation=joined.generation,
            assignments=self._assignments([each.who.member for each in joined.members]),
        )
        synced = await self.ask(
            server,
            operation,
            lambda broker: broker.kafka_groups.members.sync(self._topic.owner, GROUP, request),
        )
        if synced is None:
            return
        if synced.refusal is not None:
            self.world.recorder.fail(operation, synced.refusal)
            return
        self._generation = joined.generation
        self._partitions = assigned_partitions(synced.assignment).get(self._topic.name, ())
        self.world.recorder.ok(
            operation,
            member=joined.member,
            generation=joined.generation,
            partitions=list(self._partitions),
        )

    def _request(self) -> JoinRequest:
        metadata = bytearray(2)  # version 0
        encode(ConsumerProtocolSubscription(topics=[self._topic.name]), 0, metadata)
        return JoinRequest(
            who=self._who,
            client_id=self.name,
            host="simulated",
            session_s=SESSION_S,
            rebalance_s=REBALANCE_S,
            protocol_type=CONSUMER,
            protocols=(("turns", bytes(metadata)),),
            fresh_id="",
        )

    def _assignments(self, members: Sequence[str]) -> Mapping[str, bytes]:
        """What the leader decides: partitions one by one, from a member on that is drawn."""
        shares: dict[str, list[int]] = {each: [] for each in members}
        names = sorted(shares)
        first = self.rng.randrange(len(names)) if names else 0
        for partition in range(self._topic.partitions if names else 0):
            shares[names[(first + partition) % len(names)]].append(partition)
        return {name: write_assignment({self._topic.name: share}) for name, share in shares.items()}

    async def _commit(self) -> None:
        """Commit one position for each of its partitions."""
        server = await self.server()
        committer = Committer(group=GROUP, who=self._who, generation=self._generation)
        for partition in self._partitions:
            offset = self.rng.randint(0, self._topic.reached.get(partition, 0))
            operation = self.world.recorder.invoke(
                self.name, "member-commit", group=GROUP, topic=self._topic.resource,
                partition=partition, offset=offset, member=self._who.member,
                generation=self._generation, server=server.name,
            )  # fmt: skip

            async def commit(
                broker: Broker, partition: int = partition, offset: int = offset
            ) -> bool:
                owner = self._topic.owner
                topic = broker.context.topic(owner, Permission.GET_MESSAGE, self._topic.resource)
                asked = [OffsetToCommit(topic, partition, offset)]
                (outcome,) = await broker.kafka_groups.offsets.commit(owner, committer, asked)
                if isinstance(outcome, Exception):
                    raise outcome
                return outcome is None

            stored = await self.ask(server, operation, commit)
            if stored:
                self.world.recorder.ok(operation)
            elif stored is not None:
                self.world.recorder.fail(operation, "not a member any more")
                self._generation = -1
                return

    async def _beat(self) -> None:
        server, group = await self.server(), GROUP
        operation = self.world.recorder.invoke(
            self.name, "member-beat", group=GROUP, topic=self._topic.resource, server=server.name
        )

        async def beat(broker: Broker) -> Refusal | str:
            members = broker.kafka_groups.members
            refusal = members.heartbeat(self._topic.owner, group, self._who, self._generation)
            return refusal or ""

        refusal = await self.ask(server, operation, beat)
        if refusal:
            self.world.recorder.fail(operation, refusal)
            self._generation = -1
            if refusal is not Refusal.REBALANCE_IN_PROGRESS:
                self._who = MemberId("")
        elif refusal is not None:
            self.world.recorder.ok(operation)

    async def _leave(self) -> None:
        server, who = await self.server(), self._who
        operation = self.world.recorder.invoke(
            self.name, "member-leave", group=GROUP, topic=self._topic.resource, server=server.name
        )

        async def leave(broker: Broker) -> bool:
            broker.kafka_groups.members.leave(self._topic.owner, GROUP, [who])
            return True

        if await self.ask(server, operation, leave):
            self.world.recorder.ok(operation)
        self._who, self._generation = MemberId(""), -1

"""Admin: creates, deletes, recreates, grows and changes topics in the simulated world."""

import asyncio

from opentalos.broker.broker import Broker
from opentalos.broker.values import AttributeChange, CheckpointKey, NewTopic, Topic
from opentalos.model.errors import TalosError
from opentalos.model.identity import Principal
from opentalos.testing.simulation.clients.message_clients import (
    OWNER,
    RETRY_S,
    Client,
    LiveTopic,
)
from opentalos.testing.simulation.clients.topics.shared_topics import share_with_neighbour
from opentalos.testing.simulation.world.server import ServerLost, SimulatedServer, UnansweredBug
from opentalos.testing.simulation.world.world import World

PARTITIONS_MAX = 3
ADDED_PARTITIONS_MAX, ADDED_TOPICS_MAX = 3, 4  # of a topic; of a world that keeps everything
GROUPS = ("g1", "g2")
RETENTION_S = (4, 8, 3_600)  # of a topic, one of these
RETENTION_BYTES = (2 << 10, 6 << 10)


class Admin(Client):
    """Creates, deletes, recreates, grows and changes topics."""

    def __init__(self, world: World, topics: list[LiveTopic]) -> None:
        super().__init__(world, "admin")
        self.topics, self.all_topics = topics, list[LiveTopic]()

    async def create(
        self, name: str, *, partitions: int, flushed: bool, owner: Principal = OWNER
    ) -> LiveTopic:
        """Create a topic; retry while faults prevent it."""
        attributes = {"durability": "flushed" if flushed else "synced"}
        keeps = self.world.config.keeps
        if self.rng.random() < 0.4 and not keeps:
            attributes["retention.bytes"] = str(self.rng.choice(RETENTION_BYTES))
        new = NewTopic(
            name=name,
            partitions=partitions,
            retention_s=RETENTION_S[-1] if keeps else self.rng.choice(RETENTION_S),
            attributes=attributes,
        )
        while True:
            server = await self.server()
            try:
                topic = await server.call(
                    "create", lambda broker: broker.topics.create_topic(owner, new), timeout_s=6
                )
            except (TalosError, ServerLost, UnansweredBug):
                found = await self._find(server, name, owner)
                if found is None:
                    await asyncio.sleep(RETRY_S)
                    continue
                topic = found
            live = LiveTopic(topic.resource, name, topic.partitions, flushed, owner=owner)
            self.all_topics.append(live)
            if self.world.config.shared and owner == OWNER:
                await share_with_neighbour(self, live)
            self.world.recorder.note(
                "topic",
                topic=live.resource,
                durability=attributes["durability"],
                retention_s=new.retention_s,
                retention_bytes=attributes.get("retention.bytes"),
            )
            return live

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.think(20)
            at = self.rng.randrange(len(self.topics))
            topic = self.topics[at]
            if topic.owner != OWNER:
                continue
            if self.world.config.keeps:
                await self._add(topic)
            elif self.rng.random() < 0.3:
                topic.deleted = True
                await self._delete_until_done(topic)
                self.topics[at] = await self.create(
                    topic.name,
                    partitions=self.rng.choice([1, 2]),
                    flushed=topic.flushed,
                )
            elif self.rng.random() < 0.3:
                await self._reset(topic)
            else:
                await self._change(topic)

    async def _add(self, topic: LiveTopic) -> None:
        """Add a partition, or a topic."""
        if topic.partitions < ADDED_PARTITIONS_MAX:
            await self._change(topic, topic.partitions + 1)
        elif len(self.topics) < ADDED_TOPICS_MAX:
            name = f"added{len(self.topics)}"
            self.topics.append(await self.create(name, partitions=1, flushed=False))

    async def _reset(self, topic: LiveTopic) -> None:
        """Reset a group's offset as an operator; the lease holder loses the partition."""
        server = await self.server()
        group, partition = self.rng.choice(GROUPS), self.rng.randrange(topic.partitions)
        offset = self.rng.randint(-1, max(0, topic.reached.get(partition, 0) - 1))
        operation = self.world.recorder.invoke(
            self.name,
            "reset",
            group=group,
            topic=topic.resource,
            partition=partition,
            offset=offset,
            server=server.name,
        )
        key = CheckpointKey(group, topic.resource, partition)

        async def reset(broker: Broker) -> bool:
            await broker.consumers.reset_checkpoint(topic.owner, key, offset)
            return True

        if await self.ask(server, operation, reset):
            self.world.recorder.ok(operation)

    async def _find(self, server: SimulatedServer, name: str, owner: Principal) -> Topic | None:
        # A create whose reply was lost may have taken effect, now or a moment later.
        async def find(broker: Broker) -> Topic:
            return broker.topics.find_topic(owner, name)

        known = {topic.resource for topic in self.all_topics}
        try:
            topic = await server.call("find", find, timeout_s=6)
        except (TalosError, ServerLost, UnansweredBug):
            return None
        return topic if topic.resource not in known else None

    async def _delete_until_done(self, topic: LiveTopic) -> None:
        while True:
            if await self._delete(topic):
                return
            await asyncio.sleep(RETRY_S)

    async def _delete(self, topic: LiveTopic) -> bool:
        server = await self.server()
        operation = self.world.recorder.invoke(
            self.name, "delete", topic=topic.resource, server=server.name
        )

        async def delete(broker: Broker) -> bool:
            await broker.topics.delete_topic(OWNER, topic.resource)
            return True

        if await self.ask(server, operation, delete):
            self.world.recorder.ok(operation)
        return operation.ok or operation.error.startswith("TopicNotExist")

    async def _change(self, topic: LiveTopic, partitions: int = 0) -> None:
        server = await self.server()
        if partitions:
            change = AttributeChange(partitions=partitions, retention_s=RETENTION_S[-1])
        else:
            change = self._drawn_change(topic)
        operation = self.world.recorder.invoke(
            self.name, "alter", topic=topic.resource, retention_s=change.retention_s
        )
        try:
            changed = await server.call(
                "change",
                lambda broker: broker.topics.change_attribute(OWNER, topic.resource, change),
                timeout_s=6,
            )
        except (TalosError, ServerLost, UnansweredBug) as error:
            self.record_failure(operation, error)
            return
        self.world.recorder.ok(operation)
        topic.partitions = changed.partitions

    def _drawn_change(self, topic: LiveTopic) -> AttributeChange:
        partitions = topic.partitions + self.rng.choice([-1, 0, 1])
        changes = partitions != topic.partitions and 1 <= partitions <= PARTITIONS_MAX
        return AttributeChange(
            partitions=partitions if changes else None, retention_s=self.rng.choice(RETENTION_S)
        )

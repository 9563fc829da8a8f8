"""Workers of consumer groups in the simulated world, which sometimes break the rules."""

import asyncio
from typing import Any

from opentalos.broker.broker import Broker
from opentalos.broker.values import Commit, ConsumeUnit
from opentalos.testing.simulation.clients.message_clients import Client, LiveTopic
from opentalos.testing.simulation.history import Operation
from opentalos.testing.simulation.world.server import SimulatedServer
from opentalos.testing.simulation.world.world import World

OVERSLEEPS = 0.04  # a worker sleeps longer than its lease
COMMITS_WITHOUT_LEASE = 0.04
COMMITS_BEYOND_END = 0.03
LEAVES = 0.06  # a partition
FAR_AHEAD = 1_000  # messages


class Worker(Client):
    """Locks partitions, reads from the committed offset, commits, renews, unlocks and leaves."""

    def __init__(self, world: World, name: str, group: str, topics: list[LiveTopic]) -> None:
        super().__init__(world, name)
        self.group, self.topics = group, topics
        self._held: dict[tuple[str, int], int] = {}  # next offset to read
        self._processed: dict[tuple[str, int], int] = {}  # last processed, not yet committed

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.think()
            topic = self.rng.choice(self.topics)
            partition = self.rng.randrange(topic.partitions)
            server = await self.server()
            held = (topic.resource, partition) in self._held
            chance = self.rng.random()
            if chance < OVERSLEEPS:
                await asyncio.sleep(self.world.config.group.lease_s * (0.5 + self.rng.random()))
            elif chance < OVERSLEEPS + COMMITS_WITHOUT_LEASE:
                await self._commit(server, topic, partition, self._known_end(topic, partition))
            elif chance < OVERSLEEPS + COMMITS_WITHOUT_LEASE + COMMITS_BEYOND_END:
                far = self._known_end(topic, partition) + FAR_AHEAD
                await self._commit(server, topic, partition, far)
            elif not held:
                await self._take(server, topic, partition)
            else:
                chance = self.rng.random()
                if chance < LEAVES:
                    await self._release(server, topic, partition)
                elif chance < LEAVES + self.world.config.leaves:
                    await self._leave(server, topic)
                else:
                    await self._consume(server, topic, partition)

    async def _take(self, server: SimulatedServer, topic: LiveTopic, partition: int) -> None:
        recorder = self.world.recorder
        lock = recorder.invoke(
            self.name, "lock", **self._place(server, topic, partition), worker=self.name
        )
        unit = ConsumeUnit(self.group, topic.resource, self.name, (partition,))
        answer = await self.ask(
            server,
            lock,
            lambda broker: broker.consumers.lock_partitions(self.caller(topic), unit, "w:1"),
        )
        if answer is None:
            return
        if partition not in answer.locked:
            recorder.fail(lock, "held by another worker")
            return
        recorder.ok(lock)
        checkpoint = await self.checkpoint(server, topic, partition)
        if checkpoint is not None:
            self._held[topic.resource, partition] = checkpoint + 1 if checkpoint >= 0 else -1

    async def checkpoint(
        self, server: SimulatedServer, topic: LiveTopic, partition: int, **args: bool
    ) -> int | None:
        """Query the group's committed offset."""
        query = self.world.recorder.invoke(
            self.name, "checkpoint", **self._place(server, topic, partition), **args
        )
        offset = await self.ask(
            server,
            query,
            lambda broker: broker.consumers.query_offset(
                self.caller(topic), self.group, topic.resource, partition
            ),
        )
        if offset is not None:
            self.world.recorder.ok(query, offset=offset)
        return offset

    async def _consume(self, server: SimulatedServer, topic: LiveTopic, partition: int) -> None:
        key = (topic.resource, partition)
        read, result = await self.get(server, topic, partition, self._held[key])
        if result is not None and result.blocks:
            self._held[key] = result.blocks[-1].next_offset
            self._processed[key] = self._held[key] - 1
        elif read.error.startswith("OffsetOutOfRange"):
            self._held[key] = -1
        if key in self._processed and self.rng.random() < 0.5:
            await self._commit(server, topic, partition, self._processed.pop(key))
        if self.rng.random() < 0.4:
            await self._renew(server, topic)

    async def _commit(
        self, server: SimulatedServer, topic: LiveTopic, partition: int, offset: int
    ) -> None:
        recorder = self.world.recorder
        commit = recorder.invoke(
            self.name,
            "commit",
            **self._place(server, topic, partition),
            worker=self.name,
            offset=offset,
        )
        asked = Commit(self.group, topic.resource, partition, self.name, offset)
        accepted = await self.ask(
            server, commit, lambda broker: broker.consumers.update_offset(self.caller(topic), asked)
        )
        if accepted:
            recorder.ok(commit)
        elif accepted is not None:
            recorder.fail(commit, "not the holder")
            self._held.pop((topic.resource, partition), None)

    async def _renew(self, server: SimulatedServer, topic: LiveTopic) -> None:
        partitions = [number for name, number in self._held if name == topic.resource]
        renewal = self._invoke(server, topic, "renew", worker=self.name, partitions=partitions)
        unit = ConsumeUnit(self.group, topic.resource, self.name, tuple(partitions))
        answer = await self.ask(
            server, renewal, lambda broker: broker.consumers.renew(self.caller(topic), unit, "w:1")
        )
        if answer is not None:
            failed = list(answer[1]) if answer[0] else partitions
            self.world.recorder.ok(renewal, failed=failed)
            for partition in failed:
                self._held.pop((topic.resource, partition), None)

    async def _leave(self, server: SimulatedServer, topic: LiveTopic) -> None:
        """Leave the group on a topic, then look who is in it."""
        recorder = self.world.recorder
        partitions = tuple(number for name, number in self._held if name == topic.resource)
        leave = self._invoke(server, topic, "leave", worker=self.name, partitions=partitions)
        unit = ConsumeUnit(self.group, topic.resource, self.name, partitions)

        async def go(broker: Broker) -> bool:
            await broker.group_membership.leave(self.caller(topic), unit)
            return True

        done = await self.ask(server, leave, go)
        for partition in partitions:
            self._held.pop((topic.resource, partition), None)
            self._processed.pop((topic.resource, partition), None)
        if not done:
            return
        recorder.ok(leave)
        look = self._invoke(server, topic, "workers")
        found = await self.ask(
            server,
            look,
            lambda broker: broker.consumers.query_workers(
                self.caller(topic), self.group, topic.resource
            ),
        )
        if found is not None:
            recorder.ok(look, workers=sorted(found))

    def _invoke(
        self, server: SimulatedServer, topic: LiveTopic, action: str, **args: Any
    ) -> Operation:
        return self.world.recorder.invoke(
            self.name,
            action,
            group=self._recorded(),
            topic=topic.resource,
            server=server.name,
            **args,
        )

    async def _release(self, server: SimulatedServer, topic: LiveTopic, partition: int) -> None:
        unlock = self.world.recorder.invoke(
            self.name, "unlock", **self._place(server, topic, partition), worker=self.name
        )
        unit = ConsumeUnit(self.group, topic.resource, self.name, (partition,))

        async def release(broker: Broker) -> bool:
            await broker.consumers.unlock_partitions(self.caller(topic), unit)
            return True

        if await self.ask(server, unlock, release):
            self.world.recorder.ok(unlock)
        self._held.pop((topic.resource, partition), None)
        self._processed.pop((topic.resource, partition), None)

    def _place(self, server: SimulatedServer, topic: LiveTopic, partition: int) -> dict[str, Any]:
        return {
            "group": self._recorded(),
            "topic": topic.resource,
            "partition": partition,
            "server": server.name,
        }

    def _recorded(self) -> str:
        """The group in the history: two tenants' groups of one name are two."""
        return f"{self.principal.id}/{self.group}" if self.principal else self.group

    def _known_end(self, topic: LiveTopic, partition: int) -> int:
        return max(0, topic.reached.get(partition, 0) - 1)

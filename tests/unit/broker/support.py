"""A whole broker over memory stores, with principals of every kind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tests.unit.catalog.support import CountingClock, MovableTime, PlainBox

from opentalos.adapters.memory import (
    MemoryFileStore,
    MemoryMetaStore,
    MemoryRowStore,
    MemoryStorage,
)
from opentalos.broker.broker import Broker, BrokerConfig, open_broker
from opentalos.broker.messaging.messages import PutTarget
from opentalos.broker.values import NewTopic, Topic
from opentalos.log.partition.jobs import seal
from opentalos.model.errors import CorruptLog, TalosError
from opentalos.model.identity import Principal
from opentalos.model.limits import LogLimits
from opentalos.model.message import MessageBlock

ADDRESS = "127.0.0.1:9999"


@dataclass
class World:
    """One storage; brokers come and go over it."""

    storage: MemoryStorage
    clock: CountingClock
    time: MovableTime
    broker: Broker
    config: BrokerConfig

    async def restart(self) -> Broker:
        """Close the broker and start another over the same storage."""
        await self.broker.close()
        self.broker = await started(self.storage, self.clock, self.config)
        return self.broker

    async def topic(self, caller: Principal, name: str = "t", **fields: Any) -> Topic:
        new = NewTopic(name=name, partitions=fields.pop("partitions", 1), **fields)
        return await self.broker.topics.create_topic(caller, new)

    async def put(self, caller: Principal, topic: Topic, partition: int, count: int) -> None:
        """Put ``count`` messages; returns when they are durable."""
        done: asyncio.Future[TalosError | None] = asyncio.get_running_loop().create_future()
        block = MessageBlock(b"x" * count, count)
        target = PutTarget(topic.resource, partition)
        self.broker.messages.put(caller, target, [block], lambda _, error: done.set_result(error))
        error = await done
        if error is not None:
            raise error

    async def damage(self, topic: Topic, partition: int) -> None:
        """As if an opening had found that what follows the stored messages is damaged."""
        log = self.broker.context.partition_log(topic, partition)
        await log.offsets()
        await log.writer.run(partial(seal, log.writer))
        log.writer._opening_damaged(CorruptLog(f"partition {partition} is damaged"))


async def started(storage: MemoryStorage, clock: CountingClock, config: BrokerConfig) -> Broker:
    broker = open_broker(
        files=MemoryFileStore(storage),
        meta=MemoryMetaStore(storage),
        rows=MemoryRowStore(storage),
        clock=clock,
        config=config,
    )
    await broker.start()
    expiry = broker.kafka_groups.expiry
    for upkeep in (broker.topic_upkeep, broker.space_upkeep, broker.table_upkeep, expiry):
        await upkeep.close()  # a test runs a pass when it wants one
    return broker


@asynccontextmanager
async def world(**config: Any) -> AsyncIterator[World]:
    """A started broker; its background loop runs only when a test calls it."""
    storage, clock = MemoryStorage(), CountingClock()
    moves = LogLimits(clock_disagree_max_s=1e9)  # tests move the wall clock alone, by days
    settings = replace(
        BrokerConfig(server="s1", advertise=ADDRESS, secret_box=PlainBox(), log=moves), **config
    )
    time = MovableTime(asyncio.get_running_loop())
    made = World(storage, clock, time, await started(storage, clock, settings), settings)
    try:
        yield made
    finally:
        await made.broker.close()

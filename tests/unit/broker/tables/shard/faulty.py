"""A row store and puts that break off between two steps, and a server that dies there."""

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.unit.broker.support import World, started

from opentalos.adapters.memory import MemoryRowStore
from opentalos.broker.broker import Broker
from opentalos.broker.tables.stream.stream_puts import StreamPuts
from opentalos.catalog.topics.topic import Topic
from opentalos.log.results import AppendWaiter
from opentalos.model.errors import OutcomeUnknown, PartitionNotServing, TalosError
from opentalos.model.message import MessageBlock
from opentalos.ports.row_store import FamilyName, Row, RowMutation


class BreakingRows:
    """A memory row store; ``break_before`` or ``break_after`` calls hang from then on, as for a
    server that died there. ``unknown``: so many writes are applied, or not, and not answered."""

    def __init__(self, rows: MemoryRowStore) -> None:
        self.rows = rows
        self.hang_before = self.hang_after = ""  # the name of a step, see _step_of
        self.unknown_applied = self.unknown_lost = 0
        self.reached = asyncio.Event()

    async def mutate_many(
        self, table: str, mutations: Sequence[RowMutation]
    ) -> Sequence[int | TalosError]:
        step = _step_of(mutations)
        await self._hang(self.hang_before, step)
        if step == "write" and self.unknown_lost:
            self.unknown_lost -= 1
            raise OutcomeUnknown("lost on its way")
        outcomes = await self.rows.mutate_many(table, mutations)
        await self._hang(self.hang_after, step)
        if step == "write" and self.unknown_applied:
            self.unknown_applied -= 1
            raise OutcomeUnknown("the answer is lost")
        return outcomes

    async def get(
        self, table: str, keys: Sequence[bytes], *, family: FamilyName = FamilyName.DATA
    ) -> Sequence[Row | None]:
        await self._hang(self.hang_before, "read")
        found = await self.rows.get(table, keys, family=family)
        await self._hang(self.hang_after, "read")
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rows, name)

    async def _hang(self, wanted: str, step: str) -> None:
        if wanted == step:
            self.reached.set()
            await asyncio.Event().wait()


def _step_of(mutations: Sequence[RowMutation]) -> str:
    """``write`` or, if there is nothing but removals of pending cells, ``clear``."""
    return "write" if any(mutation.data for mutation in mutations) else "clear"


class BreakingPuts:
    """Puts of streams that are never sent, or never answered, or answered with errors first."""

    def __init__(self, puts: StreamPuts) -> None:
        self._puts = puts
        self.hang_before = self.hang_after = False
        self.errors: list[tuple[TalosError, bool]] = []  # and whether the block is stored
        self.reached = asyncio.Event()
        self.sent: list[MessageBlock] = []

    def put(self, topic: Topic, partition: int, block: MessageBlock, waiter: AppendWaiter) -> None:
        self.sent.append(block)
        if self.hang_before and block.messages:
            self.reached.set()
        elif self.hang_after and block.messages:
            self._puts.put(topic, partition, block, lambda _base, _error: self.reached.set())
        elif self.errors and block.messages:
            error, stored = self.errors.pop(0)
            if stored:
                self._puts.put(topic, partition, block, lambda _base, _error: waiter(-1, error))
            else:
                asyncio.get_running_loop().call_soon(waiter, -1, error)
        else:
            self._puts.put(topic, partition, block, waiter)

    async def close(self) -> None:
        await self._puts.close()


def break_rows(broker: Broker) -> BreakingRows:
    """Put a breakable row store below the broker's shards."""
    server: Any = broker.shards._server
    rows = BreakingRows(server.stores.rows)
    object.__setattr__(server, "stores", server.stores._replace(rows=rows))
    for shard in broker.shards._shards.values():
        shard._writer.stores = server.stores
    return rows


def break_puts(broker: Broker) -> BreakingPuts:
    """Put breakable puts below the broker's publishers."""
    server = broker.shards._server
    puts = BreakingPuts(server.puts)
    object.__setattr__(server, "puts", puts)
    for shard in broker.shards._shards.values():
        if shard._delivery is not None:
            object.__setattr__(shard._delivery.publisher.publishing, "puts", puts)
    return puts


async def killed(world: World) -> Broker:
    """The server dies at this very step, and another begins over what it left."""
    await dead(world.broker)
    world.broker = await started(world.storage, world.clock, world.config)
    return world.broker


async def dead(broker: Broker) -> None:
    """Nothing of its shards runs any more; what was in memory is lost."""
    shards = broker.shards
    if shards._follower is not None:
        shards._follower.cancel()
    for shard in list(shards._shards.values()):
        shard._task.cancel()
        if shard._delivery is not None:
            shard._delivery.stop()
        await asyncio.gather(shard._task, return_exceptions=True)
    shards._shards.clear()
    log = broker.context.log
    for key in list(log._partitions):
        log.drop(key, PartitionNotServing("the server is dead"))
    await broker.close()

"""Creates tables and their topics in a world, in spite of faults."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from opentalos.broker.broker import Broker
from opentalos.broker.tables.api.values import Table, TableSpec
from opentalos.broker.values import NewTopic, Topic
from opentalos.model.errors import TableNotEnabled, TalosError
from opentalos.model.table import NEVER, TableState
from opentalos.testing.simulation.clients.message_clients import OWNER, RETRY_S, Client, LiveTopic
from opentalos.testing.simulation.clients.tables.clients import ADMIN_S, LiveTable
from opentalos.testing.simulation.world.clock import MS_PER_S
from opentalos.testing.simulation.world.server import ServerLost, UnansweredBug

T = TypeVar("T")

TRIES_MAX = 200  # to create a topic or a table
RETENTION_S = 3_600  # longer than a run
LOST_S = 5.0  # a call that a crashed server sent is applied within this time, or never


class TableMaker(Client):
    """Creates a topic or a table; retries while faults prevent it.

    ``patient``: it waits for each reply until the server has crashed, and then until nothing that
    the server sent is in flight, so that none of its calls is applied after a later one.
    """

    patient = False

    async def topic(self, name: str, partitions: int = 1) -> LiveTopic:
        """Create a topic of the owner."""
        new = NewTopic(
            name=name,
            partitions=partitions,
            retention_s=RETENTION_S,
            attributes={"durability": "synced"},
        )

        async def find(broker: Broker) -> Topic:
            return broker.topics.find_topic(OWNER, name)

        topic = await self.done(lambda broker: broker.topics.create_topic(OWNER, new), find)
        self.world.recorder.note("topic", topic=topic.resource, durability="synced")
        return LiveTopic(topic.resource, name, topic.partitions, flushed=False)

    async def create_table(self, live: LiveTable, **args: Any) -> Table:
        """Create a table of the owner, with its streams. ``args``: for the checker."""
        spec = TableSpec(schema=live.schema, when_full=live.when_full)

        async def find(broker: Broker) -> Table:
            table = await broker.table_admin.describe(OWNER, live.name)
            if table.state is not TableState.ENABLED:
                raise TableNotEnabled(f"the table is {table.state.name}")
            if table.streams.keys() != live.streams.keys():
                raise TableNotEnabled("the server is cut off and still knows a dropped table")
            return table

        table = await self.done(
            lambda broker: broker.table_admin.create(OWNER, live.name, spec), find
        )
        views = {live.topics[name].resource: view.name for name, view in live.streams.items()}
        if live.ttl_s != NEVER:
            args["ttl_ms"] = live.ttl_s * MS_PER_S
        self.world.recorder.note("table", table=live.title, streams=views, **args)
        return table

    async def done(
        self,
        make: Callable[[Broker], Coroutine[Any, Any, T]],
        find: Callable[[Broker], Coroutine[Any, Any, T]],
    ) -> T:
        """The result of ``make``, or of an earlier attempt whose reply was lost."""
        refusal: Exception = TimeoutError("never tried")
        timeout_s = None if self.patient else ADMIN_S
        for _ in range(TRIES_MAX):
            server = await self.server()
            try:
                return await server.call("make", make, timeout_s=timeout_s)
            except (TalosError, ServerLost, UnansweredBug) as error:
                refusal = error
            if self.patient and isinstance(refusal, ServerLost):
                await asyncio.sleep(LOST_S)
            try:
                return await server.call("find", find, timeout_s=ADMIN_S)
            except (TalosError, ServerLost, UnansweredBug):
                await asyncio.sleep(RETRY_S)
        raise refusal

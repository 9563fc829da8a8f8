"""A structured table in a world: its topics, its clients, and what is looked at in the end."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from opentalos.broker.broker import Broker
from opentalos.broker.tables.values import Table, TableSpec
from opentalos.broker.values import NewTopic, Topic
from opentalos.model.change import StreamView
from opentalos.model.errors import TableNotEnabled, TalosError
from opentalos.model.table import TableState
from opentalos.testing.clients import OWNER, RETRY_S, Client, LiveTopic
from opentalos.testing.server import ServerLost, UnansweredBug
from opentalos.testing.table_audit import TableAuditor
from opentalos.testing.table_clients import (
    ADMIN_S,
    TABLE,
    LiveTable,
    MarkReader,
    Mutator,
    Switcher,
)
from opentalos.testing.world import World

T = TypeVar("T")

TRIES_MAX = 200  # to make a topic or the table
MUTATORS = 2
SWITCHED = 0.5  # probability of a third stream, which is switched
STREAMS = {"changes": StreamView.MUTATE_LOG, "images": StreamView.RECORD_IMAGE}
SWITCHED_STREAM = "sometimes"
PARTITIONS = {"changes": 2}  # of a topic; others have one
RETENTION_S = 3_600  # longer than a run


class TableScene(Client):
    """The table's owner, who makes it; without a table in this world nothing happens."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "table owner")
        self._table: LiveTable | None = None
        self._auditor: TableAuditor | None = None

    async def create(self) -> None:
        """Make topics and table, again and again while faults keep them from being made."""
        if not self.world.tabled:
            return
        streams, switched = dict(STREAMS), ""
        if self.rng.random() < SWITCHED:
            switched = SWITCHED_STREAM
            streams[switched] = StreamView.MUTATE_LOG
        topics = {name: await self._topic(name) for name in streams}
        table = LiveTable(TABLE, streams, topics, switched)
        spec = TableSpec(schema=table.schema)
        await self._made(
            lambda broker: broker.table_admin.create(OWNER, TABLE, spec),
            _enabled,
        )
        views = {topics[name].resource: view.name for name, view in streams.items()}
        self.world.recorder.note("table", table=TABLE, streams=views)
        self._table, self._auditor = table, TableAuditor(self.world, table)

    def clients(self) -> list[Mutator | Switcher | MarkReader]:
        """Who uses the table while there are faults."""
        table = self._table
        if table is None:
            return []
        found: list[Mutator | Switcher | MarkReader] = [MarkReader(self.world, table)]
        found += [Mutator(self.world, f"mutator{number}", table) for number in range(MUTATORS)]
        return [*found, Switcher(self.world, table)] if table.switched else found

    async def probe(self) -> None:
        """See TableAuditor."""
        if self._auditor is not None:
            await self._auditor.probe()

    async def read_all(self) -> None:
        """See TableAuditor."""
        if self._auditor is not None:
            await self._auditor.read_all()

    async def _topic(self, name: str) -> LiveTopic:
        new = NewTopic(
            name=name,
            partitions=PARTITIONS.get(name, 1),
            retention_s=RETENTION_S,
            attributes={"durability": "synced"},
        )

        async def find(broker: Broker) -> Topic:
            return broker.topics.find_topic(OWNER, name)

        topic = await self._made(lambda broker: broker.topics.create_topic(OWNER, new), find)
        self.world.recorder.note("topic", topic=topic.resource, durability="synced")
        return LiveTopic(topic.resource, name, topic.partitions, flushed=False)

    async def _made(
        self,
        make: Callable[[Broker], Coroutine[Any, Any, T]],
        find: Callable[[Broker], Coroutine[Any, Any, T]],
    ) -> T:
        """What was made now, or by a call before whose answer was lost."""
        refusal: Exception = TimeoutError("never tried")
        for _ in range(TRIES_MAX):
            server = await self.server()
            try:
                return await server.call("make", make, timeout_s=ADMIN_S)
            except (TalosError, ServerLost, UnansweredBug) as error:
                refusal = error
            try:
                return await server.call("find", find, timeout_s=ADMIN_S)
            except (TalosError, ServerLost, UnansweredBug):
                await asyncio.sleep(RETRY_S)
        raise refusal


async def _enabled(broker: Broker) -> Table:
    """The table, once it can be used. Raises: TableNotEnabled: it is being made."""
    table = await broker.table_admin.describe(OWNER, TABLE)
    if table.state is not TableState.ENABLED:
        raise TableNotEnabled(f"it is {table.state.name}")
    return table

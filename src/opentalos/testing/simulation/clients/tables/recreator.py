"""A table that is repeatedly dropped and created again under the same name.

Each incarnation has a topic and a history of its own, ``spare#1``, ``spare#2`` and so on. The only
client continues when a creation or a drop has certainly ended, so its mutations belong to the
incarnation that it knows. Only a mutation without a reply may take effect later, even in a later
incarnation.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from opentalos.broker.broker import Broker
from opentalos.model.change import StreamView
from opentalos.model.errors import TableExists, TableNotExist
from opentalos.testing.simulation.clients.message_clients import OWNER
from opentalos.testing.simulation.clients.tables.clients import LiveTable, Mutator
from opentalos.testing.simulation.clients.tables.creation import TableMaker
from opentalos.testing.simulation.world.world import World

SPARE = "spare"
INCARNATIONS_MAX = 4  # of one run; the last one is not dropped
MUTATIONS = (2, 12)  # of one incarnation, minimum and maximum


class Recreator(TableMaker):
    """The only user of its table."""

    patient = True

    def __init__(self, world: World) -> None:
        super().__init__(world, "recreator")
        self.incarnations: list[LiveTable] = []
        self._exists = False  # the last incarnation
        self._change: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Until cancelled; a creation or drop in flight continues."""
        while True:
            if not self._exists:
                await self._whole(self._create())
            await self._use()
            if len(self.incarnations) < INCARNATIONS_MAX:
                await self._whole(self._drop())

    async def settle(self) -> LiveTable:
        """Wait until the last incarnation exists and return it."""
        if self._change is not None:
            await self._change
        if not self._exists:
            await self._create()
        return self.incarnations[-1]

    async def _whole(self, change: Coroutine[Any, Any, None]) -> None:
        self._change = asyncio.get_running_loop().create_task(change, name="recreation")
        await asyncio.shield(self._change)

    async def _use(self) -> None:
        number = len(self.incarnations)
        user = Mutator(self.world, f"{self.name}{number}", self.incarnations[-1])
        for _ in range(self.rng.randint(*MUTATIONS)):
            await self.think()
            await user.write(await self.server(), user.any_mutation())

    async def _create(self) -> None:
        former = [each.title for each in self.incarnations]
        name = f"{SPARE}-{len(former) + 1}"
        live = LiveTable(
            name=SPARE,
            title=f"{SPARE}#{len(former) + 1}",
            streams={name: StreamView.MUTATE_LOG},
            topics={name: await self.topic(name)},
        )
        self.incarnations.append(live)
        await self.create_table(live, former=former)
        self._exists = True

    async def _drop(self) -> None:
        async def gone(broker: Broker) -> None:
            try:
                await broker.table_admin.describe(OWNER, SPARE)
            except TableNotExist:
                return
            raise TableExists(f"{SPARE} still exists")

        async def drop(broker: Broker) -> None:
            try:
                await broker.table_admin.drop(OWNER, SPARE)
            except TableNotExist:  # an earlier attempt has dropped it
                return

        await self.done(drop, gone)
        self.world.recorder.note("table-dropped", table=self.incarnations[-1].title)
        self._exists = False

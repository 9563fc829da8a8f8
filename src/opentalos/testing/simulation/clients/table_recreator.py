"""A table that is dropped and made again under its name, over and over.

Each incarnation has a topic and a history of its own, ``spare#1``, ``spare#2`` and so on. There is
one client, which goes on only when a creation or a drop is over for certain: what it changes then
belongs to the incarnation that it knows. Only what it never heard of again may be done later, even
in a later incarnation.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

from opentalos.broker.broker import Broker
from opentalos.model.change import StreamView
from opentalos.model.errors import TableExists, TableNotExist
from opentalos.testing.simulation.clients.message_clients import OWNER
from opentalos.testing.simulation.clients.table_clients import LiveTable, Mutator
from opentalos.testing.simulation.clients.table_creation import TableMaker
from opentalos.testing.simulation.world.world import World

SPARE = "spare"
INCARNATIONS_MAX = 4  # of one run; the last one stays
MUTATIONS = (2, 12)  # of one incarnation, at least and at most


class Recreator(TableMaker):
    """The only user of its table."""

    patient = True

    def __init__(self, world: World) -> None:
        super().__init__(world, "recreator")
        self.incarnations: list[LiveTable] = []
        self._there = False  # the last incarnation
        self._change: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Until cancelled; a creation or drop that is under way goes on."""
        while True:
            if not self._there:
                await self._whole(self._create())
            await self._use()
            if len(self.incarnations) < INCARNATIONS_MAX:
                await self._whole(self._drop())

    async def settle(self) -> LiveTable:
        """The last incarnation, which is there now."""
        if self._change is not None:
            await self._change
        if not self._there:
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
        self._there = True

    async def _drop(self) -> None:
        async def gone(broker: Broker) -> None:
            try:
                await broker.table_admin.describe(OWNER, SPARE)
            except TableNotExist:
                return
            raise TableExists(f"{SPARE} is still there")

        async def drop(broker: Broker) -> None:
            try:
                await broker.table_admin.drop(OWNER, SPARE)
            except TableNotExist:  # a call before has done it
                return

        await self.done(drop, gone)
        self.world.recorder.note("table-dropped", table=self.incarnations[-1].title)
        self._there = False

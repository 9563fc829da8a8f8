"""The structured tables of a world: their topics, their clients and their audit."""

from opentalos.model.change import StreamView
from opentalos.model.table import NEVER, WhenFull
from opentalos.testing.simulation.clients.tables.audit import TableAuditor
from opentalos.testing.simulation.clients.tables.clients import (
    TABLE,
    LiveTable,
    MarkReader,
    Mutator,
    Refuser,
    Switcher,
)
from opentalos.testing.simulation.clients.tables.creation import TableMaker
from opentalos.testing.simulation.clients.tables.recreator import Recreator
from opentalos.testing.simulation.world.world import World

MUTATORS = 2
STREAMS = {"changes": StreamView.MUTATE_LOG, "images": StreamView.RECORD_IMAGE}
SWITCHED_STREAM = "sometimes"
TTL_S = 1  # of rows that expire; hot rows expire from time to time
PARTITIONS = {"changes": 2}  # of a topic; all others have one

TableUser = Mutator | Switcher | Refuser | MarkReader | Recreator


class TableScene(TableMaker):
    """The tables' owner, who creates them; does nothing in a world without a table."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "table owner")
        self._table: LiveTable | None = None
        self._recreator: Recreator | None = None
        self._auditors: list[TableAuditor] = []

    async def create(self) -> None:
        """Create the topics and the table."""
        world = self.world
        if not world.tabled:
            return
        streams, switched = dict(STREAMS), ""
        if self.rng.random() < world.config.switched:
            switched = SWITCHED_STREAM
            streams[switched] = StreamView.MUTATE_LOG
        if world.rng("keys").random() < world.config.keyed:
            streams["keys"] = StreamView.KEYS_ONLY
        topics = {name: await self.topic(name, PARTITIONS.get(name, 1)) for name in streams}
        gap = world.rng("gaps").random() < world.config.gapped
        when_full = WhenFull.GAP if gap else None
        ttl_s = TTL_S if world.rng("ttl").random() < world.config.expiring else NEVER
        self._table = LiveTable(TABLE, streams, topics, switched, when_full=when_full, ttl_s=ttl_s)
        await self.create_table(self._table)
        self._auditors = [TableAuditor(world, self._table)]
        if world.rng("recreated").random() < world.config.recreated:
            self._recreator = Recreator(world)

    def clients(self) -> list[TableUser]:
        """The clients that use the tables while faults are injected."""
        table = self._table
        if table is None:
            return []
        found: list[TableUser] = [MarkReader(self.world, table)]
        found += [Mutator(self.world, f"mutator{number}", table) for number in range(MUTATORS)]
        found += [Switcher(self.world, table)] if table.switched else []
        found += [Refuser(self.world, table)] if table.when_full is WhenFull.GAP else []
        return found + ([self._recreator] if self._recreator is not None else [])

    async def probe(self) -> None:
        """See TableAuditor."""
        if self._recreator is not None:
            self._auditors.append(TableAuditor(self.world, await self._recreator.settle()))
        for auditor in self._auditors:
            await auditor.probe()

    async def read_all(self) -> None:
        """See TableAuditor; of dropped tables only the streams are read."""
        for auditor in self._auditors:
            await auditor.read_all()
        if self._recreator is not None:
            for former in self._recreator.incarnations[:-1]:
                await TableAuditor(self.world, former).read_streams()

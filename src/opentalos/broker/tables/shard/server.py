"""What all shards of a server share."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from opentalos.broker.context import BrokerContext
from opentalos.broker.tables.rows.writer import Stores
from opentalos.broker.tables.shard.counts import ShardCounts
from opentalos.broker.tables.stream.outbox_budget import OutboxBudget
from opentalos.broker.tables.stream.stream_puts import StreamPuts
from opentalos.catalog.tables.table import Table
from opentalos.catalog.tables.tables import TableCatalog
from opentalos.model.identity import Principal
from opentalos.ports.meta_store import MetaStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Handed to every shard. ``principal_of``: a table's owner, if it is one principal."""

    context: BrokerContext
    stores: Stores
    meta: MetaStore
    tables: TableCatalog
    puts: StreamPuts
    budget: OutboxBudget
    counts: ShardCounts = field(default_factory=ShardCounts)
    principal_of: Callable[[str], Principal | None] = lambda _owner: None

    def owner_of(self, table: Table) -> Principal:
        """Whose right to put into topics counts: a table's owner never acts as administrator."""
        found = self.principal_of(table.owner)
        if found is None:
            return Principal(id=table.owner, number=0, organisation=table.owner)
        return replace(found, admin=False) if found.admin else found

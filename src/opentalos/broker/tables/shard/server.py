"""What all shards of a server share."""

from collections.abc import Callable
from dataclasses import dataclass, field

from opentalos.broker.context import BrokerContext
from opentalos.broker.tables.shard.counts import ShardCounts
from opentalos.broker.tables.shard.writer import Stores
from opentalos.broker.tables.stream.outbox_budget import OutboxBudget
from opentalos.broker.tables.stream.stream_puts import StreamPuts
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
    pending: OutboxBudget
    counts: ShardCounts = field(default_factory=ShardCounts)
    principal_of: Callable[[str], Principal | None] = lambda _owner: None

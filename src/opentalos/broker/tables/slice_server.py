"""What all slices of a server share."""

from collections.abc import Callable
from dataclasses import dataclass, field

from opentalos.broker.context import BrokerContext
from opentalos.broker.tables.pending_room import PendingRoom
from opentalos.broker.tables.slice_counts import SliceCounts
from opentalos.broker.tables.slice_writer import Stores
from opentalos.broker.tables.stream_puts import StreamPuts
from opentalos.catalog.tables import TableCatalog
from opentalos.model.identity import Principal
from opentalos.ports.meta_store import MetaStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Handed to every slice. ``principal_of``: a table's owner, if it is one principal."""

    context: BrokerContext
    stores: Stores
    meta: MetaStore
    tables: TableCatalog
    puts: StreamPuts
    pending: PendingRoom
    counts: SliceCounts = field(default_factory=SliceCounts)
    principal_of: Callable[[str], Principal | None] = lambda _owner: None

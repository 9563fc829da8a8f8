"""Table use cases of applications: get, write, scan, batch."""

from collections.abc import Sequence

from opentalos.broker.context import BrokerContext
from opentalos.broker.tables.values import BatchItem, BatchOutcome, ScanPage, ScanQuery, Written
from opentalos.model.datum import Columns
from opentalos.model.identity import Principal
from opentalos.model.mutation import Mutation


class TableService:
    """Records of tables; every method authorises first. Any server answers any call."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    async def get(
        self, caller: Principal, table: str, key: Columns, attributes: Sequence[str] = ()
    ) -> Columns | None:
        """A record with its key columns, or those of ``attributes``; None: there is none.

        Raises: TableNotExist, TableNotEnabled, ValidationFailed, PermissionDenied,
            ThrottleRejected, Unavailable.
        """
        raise NotImplementedError

    async def write(self, caller: Principal, table: str, mutation: Mutation) -> Written:
        """Apply one mutation; it is durable, and in the streams' outbox, when it returns.

        Raises: as ``get``; SizeExceeded, QuotaExceeded: not done; OutcomeUnknown.
        """
        raise NotImplementedError

    async def scan(self, caller: Principal, query: ScanQuery) -> ScanPage:
        """One page. Raises: as ``get`` and, with an action that writes, as ``write``."""
        raise NotImplementedError

    async def batch(
        self, caller: Principal, items: Sequence[BatchItem], *, partial: bool = False
    ) -> Sequence[BatchOutcome]:
        """One outcome per item, in order; items are independent of each other.

        Args: partial: items over the table's rate are refused each by itself (ThrottleRejected);
            without it the whole batch is.
        Raises: SizeExceeded: more items than a batch may have; ThrottleRejected. Nothing done.
        """
        raise NotImplementedError

"""Table use cases of owners: create, change, drop, enable, disable, describe, list."""

from collections.abc import Sequence

from opentalos.broker.context import BrokerContext
from opentalos.broker.tables.values import Size, Split, Table, TableSpec, WhenFull
from opentalos.model.datum import Columns
from opentalos.model.identity import Principal
from opentalos.model.mutation import NOTHING
from opentalos.model.table import TableState


class TableAdminService:
    """Tables as callers see and change them; every method authorises first.

    A ``name`` is plain (the caller's own, or one granted to it) or ``owner/name``.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    async def create(self, caller: Principal, name: str, spec: TableSpec) -> Table:
        """Create a table owned by the caller or its organisation, enabled when it returns.

        Raises: TableExists, InvalidName, ValidationFailed, SizeExceeded, NotSupported,
            QuotaExceeded, PermissionDenied; TopicNotExist, PermissionDenied: a stream's topic.
        """
        raise NotImplementedError

    async def alter(self, caller: Principal, name: str, spec: TableSpec) -> Table:
        """Replace what the owner decides; every server that applies mutations knows it then.

        Raises: TableNotExist, ValidationFailed: keys, slices and what streams, indexes or keys
            name do not change; as ``create``. OutcomeUnknown: stored, but not everybody may know.
        """
        raise NotImplementedError

    async def drop(self, caller: Principal, name: str) -> None:
        """Drop a table and its rows, enabled or not; it is unknown to everybody from then on."""
        raise NotImplementedError

    async def enable(self, caller: Principal, name: str) -> Table:
        """Serve reads and writes again; an enabled table is no error."""
        raise NotImplementedError

    async def disable(self, caller: Principal, name: str) -> Table:
        """Refuse reads and writes from when it returns; a disabled table is no error."""
        raise NotImplementedError

    async def describe(self, caller: Principal, name: str) -> Table:
        """Everything about a table, with the state of its streams."""
        raise NotImplementedError

    async def state(self, caller: Principal, name: str) -> TableState:
        """The state of its life."""
        raise NotImplementedError

    def list(self, caller: Principal) -> Sequence[Table]:
        """Tables that the caller or its organisation owns or that were granted to it, by name."""
        raise NotImplementedError

    async def size(self, caller: Principal, name: str) -> Size:
        """Rows and bytes, estimated."""
        raise NotImplementedError

    async def splits(
        self, caller: Principal, name: str, start: Columns = NOTHING, stop: Columns = NOTHING
    ) -> Sequence[Split]:
        """Parts of the table, or of a range of it, that can be scanned in parallel."""
        raise NotImplementedError

    async def set_when_full(self, caller: Principal, name: str, choice: WhenFull) -> Table:
        """Choose what happens when a stream's topic takes nothing for long."""
        raise NotImplementedError

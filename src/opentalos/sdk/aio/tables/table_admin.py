"""Administration of structured tables for asyncio."""

from typing import Self

from opentalos.model.table import TableSchema, TableSpec, TableState
from opentalos.sdk.aio.connection.client import Client, attach
from opentalos.sdk.aio.tables import structs
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.table.calls import (
    TableInfo,
)
from opentalos.sdk.core.table.stream_state import StreamMark
from opentalos.wire._generated.sds import ADMIN_SERVICE
from opentalos.wire.sds.table_schema import spec_from, spec_to


class TableAdmin:
    """Creates, alters, enables and describes tables.

    Args: client: shared with other objects, or the configuration of a client of its own.
    """

    def __init__(self, client: Client | ClientConfig) -> None:
        self._client, self._owned = attach(client)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def create(self, name: str, spec: TableSpec | TableSchema) -> TableInfo:
        """Create a table, enabled. The topics of its streams must exist, and the owner must have
        permission to put into them.

        Raises: TableExists, ValidationFailed, TopicNotExist, PermissionDenied, QuotaExceeded: not
                created. OutcomeUnknown: call ``describe`` to find out whether it was created.
        """
        found = await self._client.call(ADMIN_SERVICE, "createTable", (name, spec_to(_spec(spec))))
        return structs.info_of(found)

    async def alter(
        self, name: str, spec: TableSpec | TableSchema, *, version: int | None = None
    ) -> None:
        """Replace the schema of a table; columns and streams that are left out are dropped. Keys,
        hashing and shards cannot change.

        Args:   version: the expected schema version, as returned by ``describe``; None: any.
        Raises: as ``create``; TableNotExist; VersionConflict: altered meanwhile, not done.
        """
        wanted = spec_to(_spec(spec))
        wanted.expectedVersion = version
        await self._client.call(ADMIN_SERVICE, "alterTable", (name, wanted))

    async def drop(self, name: str) -> None:
        """Drop a table with all its rows. Raises: TableNotExist, PermissionDenied."""
        await self._client.call(ADMIN_SERVICE, "dropTable", name)

    async def enable(self, name: str) -> None:
        """Enable a disabled table."""
        await self._client.call(ADMIN_SERVICE, "enableTable", name)

    async def disable(self, name: str) -> None:
        """Disable a table: it rejects reads and writes and keeps its rows."""
        await self._client.call(ADMIN_SERVICE, "disableTable", name)

    async def describe(self, name: str) -> TableSpec:
        """The schema and settings of a table. Raises: TableNotExist, PermissionDenied."""
        return spec_from(await self._client.call(ADMIN_SERVICE, "describeTable", name))

    async def list(self) -> tuple[TableInfo, ...]:
        """List the tables of the caller, by name."""
        found = await self._client.call(ADMIN_SERVICE, "findAllTables", None)
        return tuple(sorted(map(structs.info_of, found), key=lambda info: info.name))

    async def state(self, name: str) -> TableState:
        """The lifecycle state of a table."""
        found = await self._client.call(ADMIN_SERVICE, "getTableState", name)
        return structs.state_of(found)

    async def mark(self, name: str, topic: str) -> StreamMark:
        """A mark in the stream of a table: a time, and the offsets of the topic that every
        change up to that time precedes.

        Raises: Unavailable: a shard of the table is moving to another server; try again.
        """
        method = "getLatestStreamCheckpoint"
        return structs.mark_of(await self._client.call(ADMIN_SERVICE, method, (name, topic)))

    async def server_time_s(self) -> int:
        """Unix time in seconds by the clock of the server that replies."""
        return int(await self._client.call(ADMIN_SERVICE, "getServerTime", None))

    async def close(self) -> None:
        """Close the client, unless it is shared."""
        if self._owned:
            await self._client.close()


def _spec(spec: TableSpec | TableSchema) -> TableSpec:
    return TableSpec(schema=spec) if isinstance(spec, TableSchema) else spec

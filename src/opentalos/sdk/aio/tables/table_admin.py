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
    """Tables: made, changed, enabled and described.

    Args: client: shared with other objects, or a configuration for a client of its own.
    """

    def __init__(self, client: Client | ClientConfig) -> None:
        self._client, self._owned = attach(client)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def create(self, name: str, spec: TableSpec | TableSchema) -> TableInfo:
        """Make a table, enabled. Every topic of its streams must be there, and the owner allowed
        to put into it.

        Raises: TableExists, ValidationFailed, TopicNotExist, PermissionDenied, QuotaExceeded: not
                done. OutcomeUnknown: describe tells whether it was made.
        """
        found = await self._client.call(ADMIN_SERVICE, "createTable", (name, spec_to(_spec(spec))))
        return structs.info_of(found)

    async def alter(
        self, name: str, spec: TableSpec | TableSchema, *, version: int | None = None
    ) -> None:
        """Give a table another schema, as a whole: what is not in it goes, its streams too. Keys,
        hashing and shards cannot change.

        Args:   version: the schema's, as ``describe`` gave it; of a table that was changed since
                nothing is changed. None: whatever it is now.
        Raises: as ``create``; TableNotExist; VersionConflict: not done.
        """
        wanted = spec_to(_spec(spec))
        wanted.expectedVersion = version
        await self._client.call(ADMIN_SERVICE, "alterTable", (name, wanted))

    async def drop(self, name: str) -> None:
        """Delete a table with all its records. Raises: TableNotExist, PermissionDenied."""
        await self._client.call(ADMIN_SERVICE, "dropTable", name)

    async def enable(self, name: str) -> None:
        """Let a disabled table be used again."""
        await self._client.call(ADMIN_SERVICE, "enableTable", name)

    async def disable(self, name: str) -> None:
        """Let a table refuse reads and writes; its records stay."""
        await self._client.call(ADMIN_SERVICE, "disableTable", name)

    async def describe(self, name: str) -> TableSpec:
        """Schema and settings of a table. Raises: TableNotExist, PermissionDenied."""
        return spec_from(await self._client.call(ADMIN_SERVICE, "describeTable", name))

    async def list(self) -> tuple[TableInfo, ...]:
        """The caller's tables, by name."""
        found = await self._client.call(ADMIN_SERVICE, "findAllTables", None)
        return tuple(sorted(map(structs.info_of, found), key=lambda info: info.name))

    async def state(self, name: str) -> TableState:
        """Where a table is in its life."""
        found = await self._client.call(ADMIN_SERVICE, "getTableState", name)
        return structs.state_of(found)

    async def mark(self, name: str, topic: str) -> StreamMark:
        """A moment of a table's stream: every change up to then lies before these offsets of the
        topic.

        Raises: Unavailable: a part of the table has just moved to another server.
        """
        method = "getLatestStreamCheckpoint"
        return structs.mark_of(await self._client.call(ADMIN_SERVICE, method, (name, topic)))

    async def server_time_s(self) -> int:
        """Unix time by the clock of the server that answers, cut to seconds."""
        return int(await self._client.call(ADMIN_SERVICE, "getServerTime", None))

    async def close(self) -> None:
        """Close the client if it is this object's own."""
        if self._owned:
            await self._client.close()


def _spec(spec: TableSpec | TableSchema) -> TableSpec:
    return TableSpec(schema=spec) if isinstance(spec, TableSchema) else spec

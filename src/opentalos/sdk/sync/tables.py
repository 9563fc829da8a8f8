"""Structured tables: their records and their administration, for synchronous code here and for
asyncio in ``opentalos.sdk.aio.tables``.

Each call is that of the asyncio class of the same name. This list is the public interface.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Self

from opentalos.model.table import (
    TableSchema,
    TableSpec,
    TableState,
)
from opentalos.sdk.aio import tables as aio
from opentalos.sdk.aio.tables.scan import ScanPage, ScanPosition, ScanQuery
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.table.calls import (
    BatchItem,
    BatchOutcome,
    Condition,
    TableInfo,
    TableRange,
)
from opentalos.sdk.core.table.stream_state import StoredState, StreamMark
from opentalos.sdk.core.table.values import Given, Row
from opentalos.sdk.sync.client import Bound, Client, attach

_NO_KEY: Final[Mapping[str, Given]] = {}


class TalosTable:
    """As ``opentalos.sdk.aio.tables.TalosTable``; any thread may use it, also in a forked child.

    Args: client: shared with other objects, or a configuration for a client of its own.
    """

    def __init__(self, client: Client | ClientConfig, name: str) -> None:
        self._client, self._owned = attach(client)
        self.name = name
        self._on: Bound[aio.TalosTable] = self._client.bind(
            lambda client: aio.TalosTable(client, name)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def schema(self, *, refresh: bool = False) -> TableSchema:
        """The table's schema; remembered for a while. Raises: TableNotExist, PermissionDenied."""
        return self._on(lambda table: table.schema(refresh=refresh))

    def identity(self) -> tuple[str, TableSchema]:
        """The uuid of the table that has this name now, and its schema. Raises: as ``schema``."""
        return self._on(lambda table: table.identity())

    def get(self, key: Mapping[str, Given], columns: Sequence[str] = ()) -> Row | None:
        """The record of a key, or None. ``columns``: only these; empty: all.

        Raises: TableNotExist, TableNotEnabled, PermissionDenied, ValidationFailed.
        """
        return self._on(lambda table: table.get(key, columns))

    def put(self, record: Mapping[str, Given], condition: Condition | None = None) -> bool:
        """Write these columns of a record, which has its key's columns too; others stay.

        Returns: False: the condition did not hold, nothing was written.
        Raises:  as ``get``, QuotaExceeded, SizeExceeded: not done; OutcomeUnknown.
        """
        return self._on(lambda table: table.put(record, condition))

    def increment(self, key: Mapping[str, Given], amounts: Mapping[str, Given]) -> Row:
        """Add to columns of whole numbers; their new values. Raises: as ``put``."""
        return self._on(lambda table: table.increment(key, amounts))

    def remove(
        self,
        key: Mapping[str, Given],
        columns: Sequence[str] = (),
        condition: Condition | None = None,
    ) -> bool:
        """Remove columns of a record; none named: the record. Returns and raises: as ``put``."""
        return self._on(lambda table: table.remove(key, columns, condition))

    def batch(self, items: Sequence[BatchItem], *, partial: bool = False) -> list[BatchOutcome]:
        """Do each item by itself. An item that failed has the error as its outcome; see the
        asyncio class."""
        return self._on(lambda table: table.batch(items, partial=partial))

    def scan(
        self,
        start: Mapping[str, Given] = _NO_KEY,
        stop: Mapping[str, Given] = _NO_KEY,
        *,
        index: str | None = None,
        columns: Sequence[str] = (),
        condition: str | None = None,
        reverse: bool = False,
    ) -> Iterator[Row]:
        """Records from ``start`` on, up to but without ``stop``; see the asyncio class."""
        query = ScanQuery(start, stop, index, columns, condition, reverse)
        place: ScanPosition | None = ScanPosition()
        while place is not None:
            page = self._page(query, place)
            yield from page.records
            place = page.following

    def states(
        self, part: TableRange | None = None, columns: Sequence[str] = ()
    ) -> Iterator[StoredState]:
        """Every record with time and number of its last change; see the asyncio class."""
        query = self._on(lambda table: table._states_query(part, columns))
        place: ScanPosition | None = ScanPosition()
        while place is not None:
            page = self._page(query, place)
            yield from self._states(page)
            place = page.following

    def splits(self) -> list[TableRange]:
        """Parts of the table that can be scanned side by side: about one for each shard."""
        return self._on(lambda table: table.splits())

    def _states(self, page: ScanPage) -> list[StoredState]:
        return self._on(lambda table: table._page_states(page))

    def _page(self, query: ScanQuery, place: ScanPosition) -> ScanPage:
        return self._on(lambda table: table._scan_page(query, place))

    def close(self) -> None:
        """Close the client if it is this object's own."""
        if self._owned:
            self._client.close()


class TableAdmin:
    """As ``opentalos.sdk.aio.tables.TableAdmin``; any thread may use it, also in a forked child.

    Args: client: shared with other objects, or a configuration for a client of its own.
    """

    def __init__(self, client: Client | ClientConfig) -> None:
        self._client, self._owned = attach(client)
        self._on = self._client.bind(aio.TableAdmin)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def create(self, name: str, spec: TableSpec | TableSchema) -> TableInfo:
        """Make a table, enabled. Every topic of its streams must be there, and the owner allowed
        to put into it.

        Raises: TableExists, ValidationFailed, TopicNotExist, PermissionDenied, QuotaExceeded: not
                done. OutcomeUnknown: describe tells whether it was made.
        """
        return self._on(lambda admin: admin.create(name, spec))

    def alter(
        self, name: str, spec: TableSpec | TableSchema, *, version: int | None = None
    ) -> None:
        """Give a table another schema, as a whole: what is not in it goes, its streams too. Keys,
        hashing and shards cannot change.

        Args:   version: the schema's, as ``describe`` gave it; of a table that was changed since
                nothing is changed. None: whatever it is now.
        Raises: as ``create``; TableNotExist; VersionConflict: not done.
        """
        self._on(lambda admin: admin.alter(name, spec, version=version))

    def drop(self, name: str) -> None:
        """Delete a table with all its records. Raises: TableNotExist, PermissionDenied."""
        self._on(lambda admin: admin.drop(name))

    def enable(self, name: str) -> None:
        """Let a disabled table be used again."""
        self._on(lambda admin: admin.enable(name))

    def disable(self, name: str) -> None:
        """Let a table refuse reads and writes; its records stay."""
        self._on(lambda admin: admin.disable(name))

    def describe(self, name: str) -> TableSpec:
        """Schema and settings of a table. Raises: TableNotExist, PermissionDenied."""
        return self._on(lambda admin: admin.describe(name))

    def list(self) -> tuple[TableInfo, ...]:
        """The caller's tables, by name."""
        return self._on(lambda admin: admin.list())

    def state(self, name: str) -> TableState:
        """Where a table is in its life."""
        return self._on(lambda admin: admin.state(name))

    def mark(self, name: str, topic: str) -> StreamMark:
        """A moment of a table's stream: every change up to then lies before these offsets of the
        topic.

        Raises: Unavailable: a part of the table has just moved to another server.
        """
        return self._on(lambda admin: admin.mark(name, topic))

    def server_time_s(self) -> int:
        """Unix time by the clock of the server that answers, cut to seconds."""
        return self._on(lambda admin: admin.server_time_s())

    def close(self) -> None:
        """Close the client if it is this object's own."""
        if self._owned:
            self._client.close()

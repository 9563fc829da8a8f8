"""Reads and writes the rows of a structured table, for asyncio."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, Self

from opentalos.model.datum import Columns, Datum
from opentalos.model.errors import TableNotExist, ValidationFailed
from opentalos.model.table import TableSchema
from opentalos.sdk.aio.connection.client import Client, attach
from opentalos.sdk.aio.tables import structs
from opentalos.sdk.aio.tables.scan import (
    ScanPage,
    ScanPosition,
    ScanQuery,
    following,
    page_request,
    pause,
    versions_of,
)
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.table.calls import (
    BatchItem,
    BatchOutcome,
    Condition,
    Increment,
    Put,
    Remove,
    TableRange,
)
from opentalos.sdk.core.table.stream_state import StoredState
from opentalos.sdk.core.table.values import Given, Row, typed_columns
from opentalos.wire._generated import sds
from opentalos.wire._generated.sds import ADMIN_SERVICE, TABLE_SERVICE
from opentalos.wire.sds.datum import columns_from
from opentalos.wire.sds.table_schema import spec_from

SCHEMA_AGE_S_MAX: Final = 60.0  # a cached schema is used this long
_NO_KEY: Final[Mapping[str, Given]] = {}


class TalosTable:
    """Reads and writes the rows of one table, as plain Python values by column.

    Each value is converted to the type of its column; the schema is cached. A ``Datum`` carries
    its own type. Reads, and puts and removes without a condition, are retried even if their
    outcome is unknown. An increment or a conditional write whose reply is lost raises
    OutcomeUnknown.

    Args: client: shared with other objects, or the configuration of a client of its own.
    """

    def __init__(self, client: Client | ClientConfig, name: str) -> None:
        self._client, self._owned = attach(client)
        self.name = name
        self._schema: TableSchema | None = None
        self._asked_s = 0.0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def schema(self, *, refresh: bool = False) -> TableSchema:
        """The schema of the table, cached. Raises: TableNotExist, PermissionDenied."""
        now_s = asyncio.get_running_loop().time()
        if self._schema is None or refresh or now_s - self._asked_s > SCHEMA_AGE_S_MAX:
            return (await self.identity())[1]
        return self._schema

    async def identity(self) -> tuple[str, TableSchema]:
        """The uuid of the table, which changes if it is dropped and recreated, and its schema.
        Raises: as ``schema``."""
        found = await self._client.call(ADMIN_SERVICE, "describeTable", self.name)
        self._asked_s = asyncio.get_running_loop().time()
        self._schema = spec_from(found).schema
        return (found.metadata and found.metadata.tableId) or "", self._schema

    async def get(self, key: Mapping[str, Given], columns: Sequence[str] = ()) -> Row | None:
        """The row with this key, or None. ``columns``: only these; empty: all.

        Raises: TableNotExist, TableNotEnabled, PermissionDenied, ValidationFailed.
        """
        typed = await self._typed(key)
        request = structs.get_request(self.name, typed, columns)
        found = await self._call("get", request)
        return structs.row_of(found.item) or None

    async def put(self, record: Mapping[str, Given], condition: Condition | None = None) -> bool:
        """Write these columns of a row, given with the columns of its key; others are kept.

        Returns: False: the condition did not hold, nothing was written.
        Raises:  as ``get``; QuotaExceeded, SizeExceeded: not written; OutcomeUnknown.
        """
        return await self._write(Put(record, condition)) is True

    async def increment(self, key: Mapping[str, Given], amounts: Mapping[str, Given]) -> Row:
        """Add to integer columns. Returns: their new values. Raises: as ``put``."""
        found = await self._write(Increment(key, amounts))
        return found if isinstance(found, dict) else {}

    async def remove(
        self,
        key: Mapping[str, Given],
        columns: Sequence[str] = (),
        condition: Condition | None = None,
    ) -> bool:
        """Remove columns of a row, or the row if none are named. Returns and raises: as ``put``."""
        return await self._write(Remove(key, columns, condition)) is True

    async def batch(
        self, items: Sequence[BatchItem], *, partial: bool = False
    ) -> list[BatchOutcome]:
        """Execute items independently; a failed item returns its error as its outcome.

        Args:    partial: as many items as the rate of the table allows, and none if one of them
                 could not be done at any rate; else all, or ThrottleRejected.
        Returns: per item: for a get the row or None, for an increment the new values, for a put or
                 remove whether its condition held, or a TalosError.
        Raises:  as ``put``, for the batch as a whole.
        """
        if not items:
            return []
        types = await self._types_for(items)
        request = sds.BatchRequest(
            items=[structs.item_struct(self.name, item, types) for item in items]
        )
        repeatable = all(map(structs.is_repeatable, items))
        method = "partialAllowedBatch" if partial else "batch"
        found = await self._call(method, request, retry_unknown=repeatable)
        return [structs.outcome_of(result) for result in found.items or ()]

    async def scan(
        self,
        start: Mapping[str, Given] = _NO_KEY,
        stop: Mapping[str, Given] = _NO_KEY,
        *,
        index: str | None = None,
        columns: Sequence[str] = (),
        condition: str | None = None,
        reverse: bool = False,
    ) -> AsyncGenerator[Row, None]:
        """Rows from ``start`` up to but excluding ``stop``, in the order of the key or index.

        Both may be a prefix of the key. Pages are fetched as rows are consumed. After a page that
        was throttled the scan pauses, for at most ``ClientConfig.deadline_s`` without progress.

        Args:   condition: such as ``age > 30 AND city = 'Beijing'``; reverse: descending, with
                ``start`` above ``stop``.
        Raises: as ``get``; ThrottleRejected: throttled for too long.
        """
        query = ScanQuery(start, stop, index, columns, condition, reverse)
        position: ScanPosition | None = ScanPosition()
        while position is not None:
            page = await self._scan_page(query, position)
            for record in page.records:
                yield record
            position = page.following

    async def states(
        self, part: TableRange | None = None, columns: Sequence[str] = ()
    ) -> AsyncGenerator[StoredState, None]:
        """Every row with time and sequence number of its last change, for ``Replica.restore``.

        Removed rows are included, and expired rows with their last values.

        Args:   part: one of ``splits``; None: all; columns: only these and the key; empty: all.
        Raises: as ``scan``; NotSupported: the server does not return versions.
        """
        position: ScanPosition | None = ScanPosition()
        query = await self._states_query(part, columns)
        while position is not None:
            page = await self._scan_page(query, position)
            for state in await self._page_states(page):
                yield state
            position = page.following

    async def splits(self) -> list[TableRange]:
        """Ranges of the table to scan in parallel, about one per shard."""
        found = await self._client.call(ADMIN_SERVICE, "getTableSplits", (self.name, {}, {}))
        return [TableRange(*map(columns_from, (split.startKey, split.stopKey))) for split in found]

    async def close(self) -> None:
        """Close the client, unless it is shared."""
        if self._owned:
            await self._client.close()

    async def _states_query(
        self, part: TableRange | None = None, columns: Sequence[str] = ()
    ) -> ScanQuery:
        """The query of ``states``, with its parameters; also for the synchronous class."""
        start, stop = part or TableRange()
        key = (await self.schema()).key_columns
        wanted = (*key, *(name for name in columns if name not in key)) if columns else ()
        return ScanQuery(start, stop, columns=wanted, versions=True)

    async def _page_states(self, page: ScanPage) -> list[StoredState]:
        """Also for the synchronous class."""
        names = (await self.schema()).key_columns
        return [
            StoredState({n: row[n] for n in names}, None if removed else row, time_ms, sequence)
            for row, (time_ms, sequence, removed) in zip(page.records, page.versions, strict=True)
        ]

    async def _scan_page(self, query: ScanQuery, position: ScanPosition) -> ScanPage:
        """Also for the synchronous class."""
        limits = await self._typed(query.start), await self._typed(query.stop)
        position = await pause(self._client.config, position)
        found = await self._call("scan", page_request(self.name, query, limits, position))
        records = [structs.row_of(record) for record in found.records or ()]
        return ScanPage(records, following(found, position), versions_of(found, query))

    async def _write(self, item: Put | Increment | Remove) -> BatchOutcome:
        types = await self._types_for([item])
        request = structs.item_struct(self.name, item, types).request
        assert request is not None
        repeatable = structs.is_repeatable(item)
        if isinstance(item, Increment):
            found = await self._call("increment", request.incrementRequest)
            return structs.row_of(found.amounts)
        method = "put" if isinstance(item, Put) else "remove"
        sent = request.putRequest if isinstance(item, Put) else request.removeRequest
        found = await self._call(method, sent, retry_unknown=repeatable)
        return bool(found.success)

    async def _call(self, method: str, request: Any, *, retry_unknown: bool = False) -> Any:
        try:
            return await self._client.call(
                TABLE_SERVICE, method, request, retry_unknown=retry_unknown
            )
        except (TableNotExist, ValidationFailed):
            self._schema = None  # it may have changed
            raise

    async def _typed(self, values: Mapping[str, Given]) -> Columns:
        typed = {name: value for name, value in values.items() if isinstance(value, Datum)}
        if len(typed) == len(values):
            return typed
        return typed_columns((await self.schema()).attributes, values)

    async def _types_for(self, items: Sequence[BatchItem]) -> structs.Typed:
        """How to type the values of these items; reads the schema only if a value needs it."""
        if all(map(structs.is_typed, items)):
            return lambda values: typed_columns({}, values)
        attributes = (await self.schema()).attributes
        return lambda values: typed_columns(attributes, values)

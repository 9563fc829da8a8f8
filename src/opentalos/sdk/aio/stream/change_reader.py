"""Reads the changes of a table as a member of a consumer group, for asyncio."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Self

from opentalos.sdk.aio.connection.client import Client, attach
from opentalos.sdk.aio.consumer.talos_consumer import TalosConsumer
from opentalos.sdk.aio.tables import TalosTable
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.consumer.continuing import AsyncContinuing
from opentalos.sdk.core.consumer.settings import ConsumerSettings
from opentalos.sdk.core.table.stream_decode import (
    StreamChange,
    StreamDecoder,
    published_name,
)


class ChangeReader:
    """Reads the changes of a table as a member of a consumer group: ``async for change in reader``.

    What counts as processed, and what is committed, is as for ``TalosConsumer``. Delivery is
    at least once, in order per row; redelivery repeats a change and those after it. Use
    ``Replica`` to discard duplicates, or compare timestamp and sequence per row.

    Args: client: shared with other objects, or the configuration of a client of its own; topic:
    as in the table's schema, or OWNER/TOPIC if the table is OWNER/TABLE.
    """

    def __init__(
        self,
        client: Client | ClientConfig,
        table: str,
        topic: str,
        group: str,
        settings: ConsumerSettings | None = None,
    ) -> None:
        self._client, self._owned = attach(client)
        self._table = TalosTable(self._client, table)
        self._topic = topic
        self.consumer = TalosConsumer(self._client, topic, group, settings)

    async def __aenter__(self) -> Self:
        await self.consumer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> AsyncGenerator[StreamChange, None]:
        """Raises: ValidationFailed: the table has no such stream; MessageFormatError; CorruptLog,
        as ``TalosConsumer``."""
        return AsyncContinuing(self._changes)

    async def _changes(self) -> AsyncGenerator[StreamChange, None]:
        decoder = StreamDecoder.of(await self._table.schema(), self._topic, self._table.name)
        async for record in self.consumer:
            change = decoder.record(record)
            if change.table == published_name(self._table.name):
                yield change

    def batches(self) -> AsyncGenerator[list[StreamChange], None]:
        """The changes fetched from one partition, as a list; ends with ``close``."""
        return AsyncContinuing(self._batches)

    async def _batches(self) -> AsyncGenerator[list[StreamChange], None]:
        decoder = StreamDecoder.of(await self._table.schema(), self._topic, self._table.name)
        table = published_name(self._table.name)
        async with aclosing(self.consumer.batches()) as batches:
            async for records in batches:
                found = map(decoder.record, records)
                yield [change for change in found if change.table == table]

    async def commit(self) -> None:
        """Commit the positions after everything delivered so far. Raises: LeaseNotHeld."""
        await self.consumer.commit()

    async def close(self) -> None:
        """Commit what is processed, and release the partitions."""
        await self.consumer.close()
        if self._owned:
            await self._client.close()

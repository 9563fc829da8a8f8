"""Reads by offset, without a consumer group, for asyncio."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Self

from opentalos.sdk.aio.connection.client import Client, attach
from opentalos.sdk.aio.consumer.range_read import RANGE_ROWS_MAX, RangeRead
from opentalos.sdk.core.blocks import decode_block_records
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.values import (
    FetchReply,
    OffsetRange,
    Position,
    Record,
    Start,
    TopicRef,
    position_ms,
)

FETCH_MESSAGES: Final = 2_000  # Source: idl/message.thrift GetMessageRequest
FETCH_BYTES: Final = 10 << 20
POLARS_MISSING: Final = "read_polars needs polars: pip install 'opentalos[polars]'"


class SimpleConsumer:
    """Reads the partitions of a topic from any position, without a consumer group.

    It keeps no position: continue with the offset after that of the last record.

    Args: client: shared with other objects, or the configuration of a client of its own; topic:
    ``name`` or ``organisation/name``.
    """

    def __init__(self, client: Client | ClientConfig, topic: str) -> None:
        self._client, self._owned = attach(client)
        self._name = topic

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def fetch(
        self,
        partition: int,
        position: Position,
        *,
        messages_max: int = FETCH_MESSAGES,
        bytes_max: int = FETCH_BYTES,
    ) -> list[Record]:
        """Fetch records from a position on: at least one if there is any.

        Returns: the records; empty at the end of the log, after a short wait on the server.
        Args:    position: an offset, Start.EARLIEST, Start.LATEST, or a time with a time zone for
                 the first record stored then or later; messages_max, bytes_max: requested limits;
                 blocks arrive whole, so there may be more.
        Raises:  PositionExpired: the offset is not retained; CorruptLog: the log is damaged there,
                 and whether there are records is not known; MessageFormatError: a block is damaged.
        """
        ref = await self._client.topic(self._name)
        offset = await self.offset_of(partition, position)
        reply = await self._fetch(ref, partition, offset, messages_max, bytes_max)
        return [
            record
            for block in reply.blocks
            for record in decode_block_records(ref.name, partition, block, offset)
        ]

    async def fetch_arrow(
        self,
        partition: int,
        position: Position,
        *,
        messages_max: int = FETCH_MESSAGES,
        bytes_max: int = FETCH_BYTES,
    ) -> Any:
        """Fetch the same records as a ``pyarrow.Table``, without an object per record.

        The columns are those of ``opentalos.sdk.arrow.SCHEMA``.

        Raises: as ``fetch``; ImportError: the extra ``arrow`` is not installed.
        """
        from opentalos.sdk.arrow import decode_table  # pyarrow is large and optional

        ref = await self._client.topic(self._name)
        offset = await self.offset_of(partition, position)
        reply = await self._fetch(ref, partition, offset, messages_max, bytes_max)
        return decode_table(ref.name, partition, reply.blocks, offset)

    async def read_range(
        self,
        start: Position = Start.EARLIEST,
        end: Position = Start.LATEST,
        *,
        partitions: Sequence[int] | None = None,
        columns: Sequence[str] | None = None,
        rows_max: int = RANGE_ROWS_MAX,
    ) -> Any:
        """Everything from ``start`` to before ``end`` as one ``pyarrow.Table``.

        Rows are ordered by partition and offset. Messages that are stored after the call are not
        read. ``to_pandas()`` makes a frame of the table, ``read_polars`` reads one of Polars.

        Args:   partitions: all by default; columns: names of ``opentalos.sdk.arrow.SCHEMA``, all
                by default; rows_max: limit of the table, which is in memory.
        Raises: PositionExpired: an offset is not retained, or expires while it is read;
                CorruptLog: a partition is damaged within the range, or where that ends;
                BadRequest: the range has more than ``rows_max`` messages, nothing was read; or a
                column is unknown; PartitionNotExist; MessageFormatError: a block is damaged;
                ImportError: the extra ``arrow`` is not installed.
        """
        wanted = RangeRead(
            start=start, end=end, partitions=partitions, columns=columns, rows_max=rows_max
        )
        return await wanted.table(self._client, await self._client.topic(self._name))

    async def read_polars(
        self,
        start: Position = Start.EARLIEST,
        end: Position = Start.LATEST,
        *,
        partitions: Sequence[int] | None = None,
        columns: Sequence[str] | None = None,
        rows_max: int = RANGE_ROWS_MAX,
    ) -> Any:
        """The range of ``read_range`` as one ``polars.DataFrame``, with the same columns.

        Raises: as ``read_range``; ImportError: the extra ``polars`` is not installed.
        """
        try:
            import polars as pl  # large and optional
        except ImportError as error:
            raise ImportError(POLARS_MISSING) from error
        return pl.from_arrow(
            await self.read_range(
                start, end, partitions=partitions, columns=columns, rows_max=rows_max
            )
        )

    async def _fetch(
        self, ref: TopicRef, partition: int, offset: int, messages_max: int, bytes_max: int
    ) -> FetchReply:
        return await self._client.fetch(
            ref, partition, offset, messages_max=messages_max, bytes_max=bytes_max
        )

    async def offset_of(self, partition: int, position: Position) -> int:
        """Resolve a position to an offset."""
        if isinstance(position, int):
            return position
        ref = await self._client.topic(self._name)
        if isinstance(position, datetime):
            return (await self._client.offsets_at(ref, {partition: position_ms(position)}))[
                partition
            ]
        if position is Start.EARLIEST:
            return (await self._client.first_offsets(ref, [partition]))[partition]
        return (await self._client.offsets(ref, [partition]))[partition].next

    async def offsets(self) -> dict[int, OffsetRange]:
        """The retained offsets of every partition. Raises: CorruptLog: one of them is damaged, so
        its end is not known."""
        ref = await self._client.topic(self._name)
        return await self._client.offsets(ref, range(ref.consumer_partitions))

    async def close(self) -> None:
        """Close the client, unless it is shared."""
        if self._owned:
            await self._client.close()

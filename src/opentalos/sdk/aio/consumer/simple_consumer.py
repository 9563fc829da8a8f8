"""Reads by offset, without a consumer group."""

from datetime import datetime
from typing import Any, Final, Self

from opentalos.sdk.aio.connection.client import Client, attach
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


class SimpleConsumer:
    """Reads the partitions of a topic from any position. It keeps no position: the next one is the
    last record's offset + 1.

    Args: client: shared with other objects, or a configuration for a client of its own; topic:
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
        """Records from a position on, at least one if there is any; empty at the end of the log,
        after the server waited a moment for more.

        Args:    position: an offset, Start.EARLIEST or LATEST, or a time with a zone: the first
                 record stored then or later; messages_max, bytes_max: what the server is asked
                 for. Blocks come whole, so there may be more.
        Raises:  PositionExpired: the offset is not retained; MessageFormatError: a block is no
                 valid messages.
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
        """The same records as a ``pyarrow.Table``, without an object for each.

        Its columns are those of ``SCHEMA`` in ``opentalos.sdk.arrow``; no rows where ``fetch`` has
        no records.

        Raises: as ``fetch``, and ImportError without the extra ``arrow``.
        """
        from opentalos.sdk.arrow import decode_table  # pyarrow is heavy, and an extra

        ref = await self._client.topic(self._name)
        offset = await self.offset_of(partition, position)
        reply = await self._fetch(ref, partition, offset, messages_max, bytes_max)
        return decode_table(ref.name, partition, reply.blocks, offset)

    async def _fetch(
        self, ref: TopicRef, partition: int, offset: int, messages_max: int, bytes_max: int
    ) -> FetchReply:
        return await self._client.fetch(
            ref, partition, offset, messages_max=messages_max, bytes_max=bytes_max
        )

    async def offset_of(self, partition: int, position: Position) -> int:
        """The offset that a position means now."""
        if isinstance(position, int):
            return position
        ref = await self._client.topic(self._name)
        if isinstance(position, datetime):
            return (await self._client.offsets_at(ref, {partition: position_ms(position)}))[
                partition
            ]
        retained = (await self._client.offsets(ref, [partition]))[partition]
        return retained.start if position is Start.EARLIEST else retained.next

    async def offsets(self) -> dict[int, OffsetRange]:
        """Retained offsets of every partition."""
        ref = await self._client.topic(self._name)
        return await self._client.offsets(ref, range(ref.consumer_partitions))

    async def close(self) -> None:
        """Close the client if it is this object's own."""
        if self._owned:
            await self._client.close()

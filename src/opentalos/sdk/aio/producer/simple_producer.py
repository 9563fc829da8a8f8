"""Puts that return once the messages are stored, for asyncio."""

from collections.abc import Sequence
from typing import Final, Self

from opentalos.sdk.aio.connection.client import Client, attach
from opentalos.sdk.core.blocks import encode_records, message_of
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.values import Compression, Message, PutReply, TopicRef
from opentalos.sdk.errors import NothingThere

COMPRESSION_DEFAULT: Final = Compression.SNAPPY  # the default of the official clients


class SimpleProducer:
    """Stores messages synchronously: when ``put`` returns, they are durable.

    Nothing is buffered. For many small messages ``TalosProducer`` is faster.

    Args: client: shared with other objects, or the configuration of a client of its own; topic:
    ``name`` or ``organisation/name``; partition: for puts that name none; None: round-robin.
    """

    def __init__(
        self,
        client: Client | ClientConfig,
        topic: str,
        partition: int | None = None,
        *,
        compression: Compression = COMPRESSION_DEFAULT,
    ) -> None:
        self._client, self._owned = attach(client)
        self._name, self._partition, self._compression = topic, partition, compression
        self._turn = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def put(
        self, messages: Sequence[Message | bytes], *, partition: int | None = None
    ) -> PutReply:
        """Store messages as one block of one partition, in this order, atomically.

        Returns: the offset of the first message, if the server reports it.
        Raises:  RequestError, Unavailable: not stored. OutcomeUnknown: stored or not; a second
                 put may store the messages twice.
        """
        now_ms = self._client.now_ms()
        block = encode_records(
            [message_of(message, now_ms) for message in messages], self._compression
        )
        ref = await self._client.topic(self._name)
        try:
            return await self._client.put(ref, self._place(ref, partition), block)
        except NothingThere:
            found = await self._client.topic(self._name)  # looked up again after such an error
            if found == ref:
                raise
            return await self._client.put(found, self._place(found, partition), block)

    def _place(self, ref: TopicRef, partition: int | None) -> int:
        if partition is not None:
            return partition
        if self._partition is not None:
            return self._partition
        self._turn += 1
        return (self._turn - 1) % ref.partitions

    async def close(self) -> None:
        """Close the client, unless it is shared."""
        if self._owned:
            await self._client.close()

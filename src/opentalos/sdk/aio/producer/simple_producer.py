"""Puts that return once the messages are stored, for asyncio."""

from collections.abc import Sequence
from functools import partial
from typing import Final, Literal, Self

from opentalos.sdk.aio.connection.client import Client, attach
from opentalos.sdk.aio.producer.idempotent_put import deduplicates, new_producer_id, put_once
from opentalos.sdk.aio.producer.lanes import Lanes
from opentalos.sdk.core.blocks import encode_records, message_of
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.trace_hooks import sending
from opentalos.sdk.core.values import Compression, Message, MessageBlock, PutReply, TopicRef
from opentalos.sdk.errors import NothingThere

COMPRESSION_DEFAULT: Final = Compression.SNAPPY  # the default of the official clients


class SimpleProducer:
    """Stores messages synchronously: when ``put`` returns, they are durable.

    Nothing is buffered. For many small messages ``TalosProducer`` is faster. An OpenTalos server
    stores the messages of a put once (idempotent puts): a put whose reply is lost is repeated until
    the deadline of the client. Puts of several tasks run at the same time, in no given order.

    Args: client: shared with other objects, or the configuration of a client of its own; topic:
    ``name`` or ``organisation/name``; partition: for puts that name none; None: round-robin;
    idempotent: True: NotSupported if the server lacks idempotent puts; "auto": idempotent if it has
    them; False: never, and a put whose reply is lost is not repeated.
    """

    def __init__(
        self,
        client: Client | ClientConfig,
        topic: str,
        partition: int | None = None,
        *,
        compression: Compression = COMPRESSION_DEFAULT,
        idempotent: Literal["auto"] | bool = "auto",
    ) -> None:
        self._client, self._owned = attach(client)
        self._name, self._partition, self._compression = topic, partition, compression
        self._wanted: Literal["auto"] | bool = idempotent
        self._idempotent: bool | None = None if idempotent else False  # None: ask the server
        self._lanes = Lanes(new_producer_id)
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
        taken = [message_of(message, now_ms) for message in messages]
        block = encode_records(taken, self._compression)
        ref = await self._client.topic(self._name)
        if self._idempotent is None:
            self._idempotent = await deduplicates(self._client, self._name, self._wanted)
        try:
            return await self._put(ref, self._place(ref, partition), block, taken)
        except NothingThere:
            found = await self._client.topic(self._name)  # looked up again after such an error
            if found == ref:
                raise
            return await self._put(found, self._place(found, partition), block, taken)

    async def _put(
        self, ref: TopicRef, partition: int, block: MessageBlock, taken: Sequence[Message]
    ) -> PutReply:
        with sending(self._name, partition, taken):
            return await self._put_block(ref, partition, block)

    async def _put_block(self, ref: TopicRef, partition: int, block: MessageBlock) -> PutReply:
        put = partial(self._client.put, ref, partition, block)
        if not self._idempotent:
            return await put()
        async with self._lanes.lane() as sequences:
            return await put_once(
                sequences, ref.resource, partition, block.messages, lambda stamp: put(stamp=stamp)
            )

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

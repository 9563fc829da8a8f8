"""Puts that return when they are stored, for synchronous code."""

from collections.abc import Sequence
from typing import Self

from opentalos.sdk import aio
from opentalos.sdk.aio.producer.simple_producer import COMPRESSION_DEFAULT
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.values import Compression, Message, PutReply
from opentalos.sdk.sync.client import Client, attach


class SimpleProducer:
    """As ``opentalos.sdk.aio.SimpleProducer``; any thread may use it, also in a forked child."""

    def __init__(
        self,
        client: Client | ClientConfig,
        topic: str,
        partition: int | None = None,
        *,
        compression: Compression = COMPRESSION_DEFAULT,
    ) -> None:
        self._client, self._owned = attach(client)
        self._on = self._client.bind(
            lambda client: aio.SimpleProducer(client, topic, partition, compression=compression)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def put(self, messages: Sequence[Message | bytes], *, partition: int | None = None) -> PutReply:
        """Store messages as one block of one partition, in this order; see the asyncio class."""
        return self._on(lambda producer: producer.put(messages, partition=partition))

    def close(self) -> None:
        """Close the client if it is this object's own."""
        if self._owned:
            self._client.close()

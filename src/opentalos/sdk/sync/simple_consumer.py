"""Reads by offset, without a consumer group, for synchronous code."""

from typing import Any, Self

from opentalos.sdk import aio
from opentalos.sdk.aio.consumer.simple_consumer import FETCH_BYTES, FETCH_MESSAGES
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.values import OffsetRange, Position, Record
from opentalos.sdk.sync.client import Client, attach


class SimpleConsumer:
    """As ``opentalos.sdk.aio.SimpleConsumer``; any thread may use it, also in a forked child."""

    def __init__(self, client: Client | ClientConfig, topic: str) -> None:
        self._client, self._owned = attach(client)
        self._on = self._client.bind(lambda client: aio.SimpleConsumer(client, topic))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fetch(
        self,
        partition: int,
        position: Position,
        *,
        messages_max: int = FETCH_MESSAGES,
        bytes_max: int = FETCH_BYTES,
    ) -> list[Record]:
        """Records from a position on; see the asyncio class."""
        return self._on(
            lambda consumer: consumer.fetch(
                partition, position, messages_max=messages_max, bytes_max=bytes_max
            )
        )

    def fetch_arrow(
        self,
        partition: int,
        position: Position,
        *,
        messages_max: int = FETCH_MESSAGES,
        bytes_max: int = FETCH_BYTES,
    ) -> Any:
        """The same records as a ``pyarrow.Table``; see the asyncio class."""
        return self._on(
            lambda consumer: consumer.fetch_arrow(
                partition, position, messages_max=messages_max, bytes_max=bytes_max
            )
        )

    def offset_of(self, partition: int, position: Position) -> int:
        """The offset that a position means now."""
        return self._on(lambda consumer: consumer.offset_of(partition, position))

    def offsets(self) -> dict[int, OffsetRange]:
        """Retained offsets of every partition."""
        return self._on(lambda consumer: consumer.offsets())

    def close(self) -> None:
        """Close the client if it is this object's own."""
        if self._owned:
            self._client.close()

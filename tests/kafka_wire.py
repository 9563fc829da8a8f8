"""A connection that speaks single requests of the Kafka protocol, right or wrong."""

import asyncio
import ssl
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from tests.server_process import ROOT_KEY, Key
from tests.waiting import within_limit

from opentalos.wire.kafka.apis import ApiKey, api_of, read_response, write_request
from opentalos.wire.kafka.codec import Cursor
from opentalos.wire.kafka.spec import KafkaStruct


class KafkaWire:
    """An async context manager. ``address``: HOST:PORT."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port, self._tls = host, int(port), tls
        self._number = 0
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(
            self._host,
            self._port,
            ssl=self._tls,
            server_hostname="localhost" if self._tls else None,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.writer.transport.abort()
        with suppress(OSError):
            await self.writer.wait_closed()

    async def send(self, data: bytes | bytearray) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def frame(self) -> bytes:
        """The next response behind its size; raises IncompleteReadError at the end."""
        async with within_limit("the server sends a response"):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            return await self.reader.readexactly(size)

    async def ended(self) -> bool:
        """Whether the server closes the connection, whatever it sends before."""
        async with within_limit("the server closes the connection"):
            try:
                while await self.reader.read(65_536):
                    pass
            except ConnectionError:
                pass
        return True

    async def call(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        """The response to a request of these fields."""
        return await self.ask(key, version, api_of(key).request(**fields))

    async def ask(self, key: ApiKey, version: int, request: KafkaStruct) -> Any:
        """The response to a request."""
        self._number += 1
        await self.send(write_request(api_of(key), version, request, self._number, "raw"))
        number, response = read_response(api_of(key), version, Cursor(await self.frame()))
        assert number == self._number
        return response

    async def plain(self, key: Key = ROOT_KEY) -> Self:
        """Authenticate with a key."""
        response = await self.offer("PLAIN", f"\0{key.key_id}\0{key.secret}".encode())
        assert response.error_code == 0, response.error_message
        return self

    async def offer(self, mechanism: str, first: bytes) -> Any:
        """The response to the first bytes of a mechanism."""
        chosen = await self.call(ApiKey.SASL_HANDSHAKE, 1, mechanism=mechanism)
        assert chosen.error_code == 0, chosen.mechanisms
        return await self.sasl(first)

    async def sasl(self, data: bytes) -> Any:
        """The response to further bytes of a mechanism."""
        return await self.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=data)

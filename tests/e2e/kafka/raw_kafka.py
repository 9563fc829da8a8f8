"""Requests made by our codec: what clients never send, and every version."""

import asyncio
import struct
from typing import Any, Self

from tests.server_process import ROOT_KEY, Key

from opentalos.wire.kafka.apis import ApiKey, api_of, read_response, write_request
from opentalos.wire.kafka.codec import Cursor
from opentalos.wire.kafka.spec import KafkaStruct

TIMEOUT_S = 15.0


class RawKafka:
    """Sends a request and reads its response; ``versions`` are those that the server serves."""

    def __init__(self, address: str, key: Key = ROOT_KEY) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._key, self._next = key, 0
        self.versions: dict[int, tuple[int, int]] = {}

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._host, int(self._port))
        served = await self.call(ApiKey.API_VERSIONS, 3)
        for each in served.api_keys:
            self.versions[each.api_key] = (each.min_version, each.max_version)
        await self.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        secret = b"\0".join((b"", self._key.key_id.encode(), self._key.secret.encode()))
        done = await self.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=secret)
        assert not done.error_code, done.error_message
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    def send(self, key: ApiKey, version: int, request: KafkaStruct) -> None:
        """Without waiting for the response."""
        self._next += 1
        self._writer.write(write_request(api_of(key), version, request, self._next, "tests"))

    async def receive(self, key: ApiKey, version: int) -> Any:
        """The next response."""
        async with asyncio.timeout(TIMEOUT_S):
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            frame = await self._reader.readexactly(size)
        cursor = Cursor(frame)
        _, response = read_response(api_of(key), version, cursor)
        assert cursor.position == len(frame)
        return response

    async def call(self, key: ApiKey, version: int, **fields: Any) -> Any:
        """The response to a request of these fields."""
        self.send(key, version, api_of(key).request(**fields))
        return await self.receive(key, version)

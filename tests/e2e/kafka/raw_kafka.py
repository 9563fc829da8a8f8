"""Requests made by our codec: what clients never send, and every version."""

from typing import Any, Self

from tests.kafka_wire import KafkaWire
from tests.server_process import ROOT_KEY, Key

from opentalos.wire.kafka.apis import ApiKey, api_of, read_response, write_request
from opentalos.wire.kafka.codec import Cursor
from opentalos.wire.kafka.spec import KafkaStruct


class RawKafka(KafkaWire):
    """An authenticated connection; ``versions`` are those that the server serves."""

    def __init__(self, address: str, key: Key = ROOT_KEY) -> None:
        super().__init__(address)
        self._key = key
        self.versions: dict[int, tuple[int, int]] = {}

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        served = await self.call(ApiKey.API_VERSIONS, 3)
        for each in served.api_keys:
            self.versions[each.api_key] = (each.min_version, each.max_version)
        await self.plain(self._key)
        return self

    async def begin(self, key: ApiKey, version: int, request: KafkaStruct) -> None:
        """Send without waiting for the response."""
        await self.send(write_request(api_of(key), version, request, 0, "tests"))

    async def receive(self, key: ApiKey, version: int) -> Any:
        """The next response."""
        frame = await self.frame()
        cursor = Cursor(frame)
        _, response = read_response(api_of(key), version, cursor)
        assert cursor.position == len(frame)
        return response

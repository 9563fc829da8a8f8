"""Administrative requests to a real broker, through the bytes of each version."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from tests.unit.broker.support import World

from opentalos.gateway.kafka.call import ClientSession, KafkaCall, Received
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.handlers import TABLE
from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.model.identity import Principal
from opentalos.model.settings.kafka import KafkaSettings
from opentalos.wire.kafka.apis import (
    SIZE,
    ApiKey,
    api_of,
    read_header,
    read_request,
    read_response,
    write_request,
    write_response,
)
from opentalos.wire.kafka.codec import Cursor
from opentalos.wire.kafka.spec import KafkaStruct


@dataclass(frozen=True)
class Client:
    """One client of a broker; ``ask`` returns the response as its version shows it."""

    world: World
    caller: Principal

    def of(self, caller: Principal) -> "Client":
        return Client(self.world, caller)

    async def ask(self, key: ApiKey, request: KafkaStruct, version: int = -1) -> Any:
        served, api = TABLE[key], api_of(key)
        version = served.versions[1] if version < 0 else version
        cursor = Cursor(write_request(api, version, request, 7, "c"), SIZE.size)
        header = read_header(cursor)
        session = ClientSession(peer="127.0.0.1", network="", private=True, caller=self.caller)
        received = Received(api, header, read_request(api, version, cursor))
        call = KafkaCall(received, session, self.world.broker.work, lambda call, pieces: None)
        port = KafkaPort(KafkaSettings(), lambda port: cast(Any, None))
        services = cast(Services, SimpleNamespace(broker=self.world.broker, port=port))
        made: Any = served.handle(services, call)
        raw = write_response(api, version, header.correlation_id, await made)
        return read_response(api, version, Cursor(raw, SIZE.size))[1]

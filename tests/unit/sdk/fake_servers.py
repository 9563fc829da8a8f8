"""Servers without sockets: a transport that answers a client's requests by handlers, in turn."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from opentalos.gateway.thrift_http.errors import form_of, text_of
from opentalos.model.errors import TalosError
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.aio.connection.transport import Transport
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.operation import Reply
from opentalos.sdk.core.values import TopicRef
from opentalos.sdk.errors import ConnectFailed, NoReply
from opentalos.testing.simulation.loop import SimulationLoop
from opentalos.wire._generated import message, topic
from opentalos.wire._generated.common import ErrorCode, GalaxyTalosException
from opentalos.wire._generated.talos import SERVICES
from opentalos.wire.thrift import ThriftProtocol, decode_call, encode_error, encode_reply

T = TypeVar("T")
COMPACT = ThriftProtocol.COMPACT
S1, S2, S3 = (f"http://s{number}:1" for number in (1, 2, 3))
TOPIC = TopicRef("demo", "root#demo#0a", 2)

Handler = Callable[[Any], Any]


@dataclass(eq=False)
class FakeServers:
    """Answers by ``handlers[server][rpc]``; a handler returns the result, or raises what the
    client is to see: a TalosError as the server's answer, ConnectFailed or NoReply as none."""

    handlers: dict[str, dict[str, Handler]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)  # server and rpc
    headers: list[Mapping[str, str]] = field(default_factory=list)
    raw: list[Reply] = field(default_factory=list)  # given out before any handler is asked
    delay_s: float = 0.0
    reply_headers: Mapping[str, str] = field(default_factory=dict)  # of every thrift reply

    def on(self, server: str, rpc: str, handler: Handler) -> None:
        self.handlers.setdefault(server, {})[rpc] = handler

    def count(self, rpc: str, server: str | None = None) -> int:
        return sum(request[1] == rpc and server in (None, request[0]) for request in self.requests)

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float
    ) -> Reply:
        parts = urlsplit(url)
        server = f"{parts.scheme}://{parts.netloc}"
        service = next(item for item in SERVICES.values() if item.path == parts.path)
        call = decode_call(COMPACT, service, body)
        self.requests.append((server, call.method.name))
        self.headers.append(headers)
        await asyncio.sleep(self.delay_s)
        if self.raw:
            return self.raw.pop(0)
        handler = self.handlers.get(server, {}).get(call.method.name)
        if handler is None:
            raise ConnectFailed(f"connection refused by {server}")
        try:
            result = handler(call.request)
            if inspect.isawaitable(result):
                result = await result
        except (ConnectFailed, NoReply):
            raise
        except TalosError as error:
            form = form_of(error)
            sent = GalaxyTalosException(errorCode=ErrorCode(form.code), errMsg=text_of(error, form))
            return self._reply(form.status, encode_error(COMPACT, call.method, call.seqid, sent))
        return self._reply(200, encode_reply(COMPACT, call.method, call.seqid, result))

    async def close(self) -> None:
        pass

    def _reply(self, status: int, body: bytes) -> Reply:
        reply = thrift_reply(status, body)
        return reply._replace(headers={**reply.headers, **self.reply_headers})


def thrift_reply(status: int, body: bytes) -> Reply:
    return Reply(status, {"Content-Type": COMPACT.value}, body)


def raises(error: TalosError) -> Handler:
    """A handler that always fails so."""

    def handler(_: Any) -> Any:
        raise error

    return handler


def in_turn(*steps: Handler) -> Handler:
    """A handler that behaves like each of ``steps`` once, then like the last one."""
    left = list(steps)

    def handler(request: Any) -> Any:
        step = left.pop(0) if len(left) > 1 else left[0]
        return step(request)

    return handler


def stored(_: Any) -> message.PutMessageResponse:
    return message.PutMessageResponse(sequenceId="x")


def transferred(_: Any) -> message.PutMessageResponse:
    return message.PutMessageResponse(sequenceId="x", isTransfer=True)


def schedule(*servers: str) -> Handler:
    """A map with partition n at the nth server."""

    def handler(_: Any) -> message.GetScheduleInfoResponse:
        return message.GetScheduleInfoResponse(
            scheduleInfo={
                topic.TopicAndPartition(
                    topicName=TOPIC.name,
                    topicTalosResourceName=topic.TopicTalosResourceName(
                        topicTalosResourceName=TOPIC.resource
                    ),
                    partitionId=number,
                ): server.removeprefix("http://")
                for number, server in enumerate(servers)
            }
        )

    return handler


def config(*endpoints: str, **settings: Any) -> ClientConfig:
    return ClientConfig(endpoints=endpoints or (S1,), key_id="AK", secret="secret", **settings)


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """Run in virtual time."""
    loop = SimulationLoop()
    try:
        return loop.run(scenario)
    finally:
        loop.close()


def client_of(servers: FakeServers, *endpoints: str, **settings: Any) -> Client:
    """A client whose requests go to the fake servers."""
    client = Client(config(*endpoints, **settings), wall_s=lambda: 1_700_000_000.0)
    return connect(client, servers)


def connect(client: Client, servers: FakeServers) -> Client:
    """Send the client's requests to the fake servers."""
    client._caller.transport = cast(Transport, servers)
    return client

"""Peers on HTTP, on real sockets: what is sent once, what is not done, what is unknown."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.waiting import eventually_async, limit_s, within_limit

from opentalos.adapters.peer_http import HttpPeers, open_http_peers
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.reply_format import head
from opentalos.gateway.http.server import HttpServer
from opentalos.gateway.peer.calls import PeerGateway
from opentalos.gateway.peer.proofs import ProofReader
from opentalos.model.errors import (
    ExcessivePending,
    InvalidCredential,
    NotOwner,
    OutcomeUnknown,
    StoreUnavailable,
    TalosError,
    TopicNotExist,
)
from opentalos.model.limits import ClusterLimits, HttpLimits
from opentalos.ports.peers import CallRequest, Forwarded
from opentalos.wire.peer_proof import PeerKey

KEY = b"k" * 32
REQUEST = Forwarded(b"POST", b"/v1/api/message?id=1", {b"x-a": b"1,2"}, b"body", "10.0.0.9")
CALL = CallRequest("partitions", b'{"topic":"t"}', 1)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine no request is late but where a test says so."""
    for name in ("pool.TAKE_S_MAX", "pool.CONNECT_S_MAX", "peers._PROBE_S_MAX"):
        monkeypatch.setattr(f"opentalos.adapters.peer_http.{name}", limit_s())


@asynccontextmanager
async def peers(key: bytes = KEY, **limits: Any) -> AsyncIterator[HttpPeers]:
    made = open_http_peers(ClusterLimits(**{"peer_timeout_s": limit_s(), **limits}), key, "s1")
    try:
        yield made
    finally:
        await made.close()


class Scripted:
    """A server that reads requests and does with each connection what a test says."""

    def __init__(self) -> None:
        self.requests = 0
        self.connections = 0
        self.address = ""

    async def read(self, reader: asyncio.StreamReader) -> bytes:
        request = await reader.readuntil(b"\r\n\r\n")
        size = int(request.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        request += await reader.readexactly(size)
        self.requests += 1
        return request


Script = Callable[[Scripted, asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[Scripted]:
    made = Scripted()

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.connections += 1
        try:
            await script(made, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(run, "127.0.0.1", 0)
    made.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield made


async def answer_all(
    made: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    while True:
        await made.read(reader)
        writer.write(OK)


async def arrived(other: Scripted) -> None:
    """One request is there, and those made with it wait for its connection."""
    await eventually_async("the first request arrives", lambda: other.requests == 1)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- the pool ----------------------------------------------------------------------------------


async def test_a_connection_serves_many_requests() -> None:
    async with scripted(answer_all) as other, peers() as here:
        for _ in range(5):
            reply = await here.forward(other.address, REQUEST)
            assert (reply.status, reply.body) == (200, b"ok")
        assert (other.requests, other.connections) == (5, 1)


async def test_connections_are_bounded_and_requests_wait_their_turn() -> None:
    async with scripted(answer_all) as other, peers(peer_connections_max=2) as here:
        calls = [here.forward(other.address, REQUEST) for _ in range(50)]
        replies = await asyncio.gather(*calls)
        assert {reply.body for reply in replies} == {b"ok"}
        assert (other.requests, other.connections) == (50, 2)


async def test_too_many_waiting_requests_are_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opentalos.adapters.peer_http.pool.WAITERS_MAX", 1)

    async def hang(made: Scripted, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await made.read(reader)
        await asyncio.Event().wait()

    async with scripted(hang) as other, peers(peer_connections_max=1) as here:
        tasks = [asyncio.ensure_future(here.forward(other.address, REQUEST)) for _ in range(2)]
        await arrived(other)
        with pytest.raises(ExcessivePending):
            await here.forward(other.address, REQUEST)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_request_that_gets_no_connection_in_time_is_not_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = asyncio.Event()

    async def slow(
        made: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await made.read(reader)
        await release.wait()
        writer.write(OK)

    async with scripted(slow) as other, peers(peer_connections_max=1) as here:
        first = asyncio.create_task(here.forward(other.address, REQUEST))
        await arrived(other)
        monkeypatch.setattr("opentalos.adapters.peer_http.pool.TAKE_S_MAX", 0.1)
        with pytest.raises(StoreUnavailable, match="keeps all 1 connections busy"):
            await here.forward(other.address, REQUEST)
        release.set()
        assert (await first).body == b"ok"
        assert other.requests == 1


async def test_a_cancelled_request_leaves_its_turn_to_the_next() -> None:
    release = asyncio.Event()

    async def slow(
        made: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            await made.read(reader)
            await release.wait()
            writer.write(OK)

    async with scripted(slow) as other, peers(peer_connections_max=1) as here:
        tasks = [asyncio.ensure_future(here.forward(other.address, REQUEST)) for _ in range(4)]
        await arrived(other)
        tasks[0].cancel()  # under way: its connection is cut
        tasks[2].cancel()  # waiting
        release.set()
        async with within_limit("every request is answered or cancelled"):
            done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [getattr(reply, "body", None) for reply in done] == [None, b"ok", None, b"ok"]


async def test_a_request_on_a_connection_that_dies_is_never_sent_twice() -> None:
    async def die(
        made: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await made.read(reader)
        writer.write(OK)
        await made.read(reader)  # the second request is processed, its reply is lost

    async with scripted(die) as other, peers() as here:
        await here.forward(other.address, REQUEST)
        with pytest.raises(OutcomeUnknown, match="without a reply"):
            await here.forward(other.address, REQUEST)
        assert other.requests == 2


async def test_a_connection_closed_while_idle_is_replaced_before_anything_is_sent() -> None:
    async def once(
        made: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await made.read(reader)
        writer.write(OK)

    async with scripted(once) as other, peers() as here:
        for _ in range(3):
            assert (await here.forward(other.address, REQUEST)).body == b"ok"
            await eventually_async("its end arrives", lambda: here._pools[other.address].empty)
        assert (other.requests, other.connections) == (3, 3)


@pytest.mark.parametrize(
    "garbage",
    [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort"],
)
async def test_half_or_broken_replies_are_unknown(garbage: bytes) -> None:
    async def break_off(
        made: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await made.read(reader)
        writer.write(garbage)

    async with scripted(break_off) as other, peers() as here:
        with pytest.raises(OutcomeUnknown):
            await here.forward(other.address, REQUEST)


async def test_a_reply_that_is_too_large_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opentalos.adapters.peer_http.connection.REPLY_BYTES_MAX", 1)
    async with scripted(answer_all) as other, peers() as here:
        with pytest.raises(OutcomeUnknown, match="too large"):
            await here.forward(other.address, REQUEST)


async def test_a_server_that_does_not_answer_is_unknown_in_time() -> None:
    async def hang(made: Scripted, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await made.read(reader)
        await asyncio.Event().wait()

    async with scripted(hang) as other, peers(peer_timeout_s=0.1) as here:
        with pytest.raises(OutcomeUnknown, match=r"did not answer in 0.1 s"):
            await here.forward(other.address, REQUEST)


@pytest.mark.parametrize("address", ["", "nowhere", "host:x"])
async def test_a_call_to_an_invalid_address_is_not_done(address: str) -> None:
    async with peers() as here:
        with pytest.raises(StoreUnavailable):
            await here.forward(address, REQUEST)
        assert not await here.refuses(address)


async def test_a_port_without_a_listener_refuses_and_nothing_is_done() -> None:
    address = f"127.0.0.1:{closed_port()}"
    async with peers() as here:
        assert await here.refuses(address)
        with pytest.raises(StoreUnavailable, match="cannot reach"):
            await here.forward(address, REQUEST)


async def test_a_silent_listener_does_not_refuse() -> None:
    """A stopped process does not accept; the kernel completes the connection for it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        async with peers() as here:
            assert not await here.refuses(f"127.0.0.1:{listener.getsockname()[1]}")


async def test_a_full_backlog_does_not_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opentalos.adapters.peer_http.peers._PROBE_S_MAX", 0.1)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        place = listener.getsockname()
        kept = [socket.socket() for _ in range(3)]
        for item in kept:
            item.setblocking(False)
            item.connect_ex(place)
        async with peers() as here:
            assert not await here.refuses(f"127.0.0.1:{place[1]}")
        for item in kept:
            item.close()


async def test_after_close_nothing_is_sent() -> None:
    async with scripted(answer_all) as other, peers() as here:
        await here.close()
        with pytest.raises(StoreUnavailable, match="stopping"):
            await here.forward(other.address, REQUEST)


# --- two servers -------------------------------------------------------------------------------


@dataclass
class Owner:
    """The other server: its calls, and the requests that were forwarded to it."""

    http: HttpServer = field(init=False)
    address: str = ""
    error: TalosError | None = None
    asked: list[CallRequest] = field(default_factory=list)
    seen: list[Exchange] = field(default_factory=list)
    proofs: ProofReader = field(default_factory=lambda: ProofReader(PeerKey(KEY)))

    async def answer(self, request: CallRequest) -> bytes:
        self.asked.append(request)
        if self.error is not None:
            raise self.error
        return request.body

    def serve(self, exchange: Exchange) -> None:
        try:
            self.proofs.transfer(exchange)
        except InvalidCredential as error:
            exchange.reply_text(403, str(error))
            return
        self.seen.append(exchange)
        exchange.reply(head(400, b"application/x-thrift-compact"), b"an error", b"X-Own: 7\r\n")


@asynccontextmanager
async def owner() -> AsyncIterator[Owner]:
    made = Owner()
    gateway = PeerGateway(made, made.proofs)
    routes = {b"/v1/api/message": made.serve}
    made.http = HttpServer(HttpLimits(), routes, gateway.prefix_routes())
    made.address = f"127.0.0.1:{await made.http.listen('127.0.0.1', 0)}"
    try:
        yield made
    finally:
        await made.http.drain(1.0)


async def test_a_forwarded_request_arrives_as_it_was() -> None:
    async with owner() as other, peers() as here:
        headers = {b"x-a": b"1,2", b"host": b"a,b", b"content-length": b"4", b"connection": b"x"}
        reply = await here.forward(other.address, REQUEST._replace(headers=headers))
        (exchange,) = other.seen
        assert (exchange.method, exchange.path) == (b"POST", b"/v1/api/message")
        assert (exchange.query, exchange.body) == (b"id=1", b"body")
        assert (exchange.forwarder, exchange.peer) == ("s1", "10.0.0.9")
        assert exchange.headers[b"x-a"] == b"1,2"
        assert b"connection" not in exchange.headers
        assert (reply.status, reply.body) == (400, b"an error")
        assert dict(reply.headers)[b"X-Own"] == b"7"


async def test_a_call_is_answered_and_its_error_is_the_same_leaf() -> None:
    async with owner() as other, peers() as here:
        assert await here.ask(other.address, CALL) == CALL.body
        assert other.asked == [CALL]
        other.error = TopicNotExist("no such topic")
        with pytest.raises(TopicNotExist, match="no such topic"):
            await here.ask(other.address, CALL)
        other.error = NotOwner("over there", "h:1", "uuid")
        with pytest.raises(NotOwner) as caught:
            await here.ask(other.address, CALL)
        assert (caught.value.address, caught.value.topic_uuid) == ("h:1", "uuid")


async def test_an_error_that_this_version_does_not_know_is_unknown() -> None:
    class Newer(TalosError):
        """A leaf of a later version."""

    async with owner() as other, peers() as here:
        other.error = Newer("what")
        with pytest.raises(OutcomeUnknown, match="Newer: what"):
            await here.ask(other.address, CALL)


async def test_another_key_is_refused() -> None:
    async with owner() as other, peers(key=b"x" * 32) as here:
        with pytest.raises(InvalidCredential, match="no valid proof"):
            await here.ask(other.address, CALL)
        reply = await here.forward(other.address, REQUEST)
        assert reply.status == 403
        assert (other.asked, other.seen) == ([], [])
        assert other.proofs.refused == 2


async def send(address: str, request: bytes) -> bytes:
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    reply = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return reply.split(b"\r\n")[0]


async def test_a_call_cannot_be_replayed_or_changed() -> None:
    sent: list[bytes] = []

    async def keep(
        made: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        sent.append(await made.read(reader))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with owner() as other, scripted(keep) as between, peers() as here:
        await here.ask(between.address, CALL)
        (request,) = sent
        changed = request.replace(CALL.body, CALL.body.replace(b"t", b"u"))
        assert b"403" in await send(other.address, changed)
        assert b"403" in await send(other.address, request.replace(b"/partitions", b"/others"))
        assert b"200" in await send(other.address, request)
        assert b"403" in await send(other.address, request)
        assert len(other.asked) == 1


async def test_an_old_proof_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with owner() as other, peers() as here:
        monkeypatch.setattr("opentalos.gateway.peer.proofs.AGE_MS_MAX", -1)
        with pytest.raises(InvalidCredential, match="clock of server s1 differs"):
            await here.ask(other.address, CALL)

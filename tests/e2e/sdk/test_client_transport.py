"""The transport over real sockets: what was written and what came back, and nothing sent twice."""

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.sdk.scripted_server import after, never, raw, say, scripted
from tests.tls_files import TlsFolder
from tests.waiting import eventually_async, limit_s, stays_async, within_limit

from opentalos.model.errors import ConfigError
from opentalos.sdk.aio.connection.threaded_transport import ThreadedTransport, _Exchange
from opentalos.sdk.aio.connection.transport import Transport, _Body
from opentalos.sdk.core.config import ClientConfig, TlsSettings
from opentalos.sdk.core.operation import Reply
from opentalos.sdk.errors import ConnectFailed, NoReply

HEADERS = {"Content-Type": "application/x-thrift-compact"}
BODY = b"body of the request"
HURRY_S = 1.0  # of what does not happen at all


Made = Transport | ThreadedTransport
KINDS: list[type[Made]] = [Transport]  # the last one is tested


@pytest.fixture(params=[Transport, ThreadedTransport], autouse=True)
def kind(request: pytest.FixtureRequest) -> Iterator[type[Made]]:
    """The transport that is tested."""
    KINDS.append(request.param)
    yield request.param
    KINDS.pop()


@asynccontextmanager
async def transport(url: str, **settings: Any) -> AsyncIterator[Made]:
    config = ClientConfig(endpoints=(url,), key_id="AK", secret="s", **settings)
    made = KINDS[-1](config)
    try:
        yield made
    finally:
        await made.close()


async def test_one_connection_serves_request_after_request() -> None:
    async with scripted(say(b"hello")) as server, transport(server.url) as http:
        for _ in range(5):
            reply = await http.post(server.url, HEADERS, BODY, limit_s())
            assert (reply.status, reply.body) == (200, b"hello")
    assert (server.connections, len(server.requests)) == (1, 5)
    assert server.requests[0].endswith(b"\r\n\r\n" + BODY)
    assert b"accept-encoding" not in server.requests[0].lower()


async def test_a_refused_connection_is_not_done() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        async with transport(url) as http:
            with pytest.raises(ConnectFailed) as failure:
                await http.post(f"{url}/v1/api/topic?type=x", HEADERS, BODY, limit_s())
    assert str(failure.value) == f"cannot connect to {url}: Connection refused"


async def test_a_name_that_nobody_has_is_not_done() -> None:
    url = "http://nobody.invalid:80"
    async with transport(url) as http:
        with pytest.raises(ConnectFailed, match=r"nobody\.invalid"):
            await http.post(url, HEADERS, BODY, limit_s())


@pytest.mark.parametrize(
    "part",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"],
)
async def test_a_connection_that_ends_before_the_reply_is_unknown_and_not_sent_again(
    part: bytes,
) -> None:
    async with scripted(raw(part)) as server, transport(server.url) as http:
        with pytest.raises(NoReply, match=server.url):
            await http.post(server.url, HEADERS, BODY, limit_s())
        await stays_async("it was sent once", lambda: len(server.requests) == 1)


async def test_the_same_on_a_connection_that_was_used_before() -> None:
    async with scripted(say(), raw(b"")) as server, transport(server.url) as http:
        await http.post(server.url, HEADERS, BODY, limit_s())
        with pytest.raises(NoReply):
            await http.post(server.url, HEADERS, BODY, limit_s())
        await stays_async(
            "both were sent once", lambda: (server.connections, len(server.requests)) == (1, 2)
        )


@pytest.mark.parametrize("length", [100, 40_000, 600_000])
async def test_a_body_arrives_as_it_is(length: int) -> None:
    body = bytes(range(256)) * (length // 256 + 1)
    async with scripted(say()) as server, transport(server.url) as http:
        for _ in range(2):
            await http.post(server.url, HEADERS, body[:length], limit_s())
    assert [request.partition(b"\r\n\r\n")[2] for request in server.requests] == [body[:length]] * 2
    assert b"chunked" not in server.requests[0].partition(b"\r\n\r\n")[0]


async def test_a_request_that_was_not_written_to_its_end_is_not_done() -> None:
    """The port takes connections and reads nothing, so the body stays on the way."""
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        port.listen()
        url = f"http://127.0.0.1:{port.getsockname()[1]}"
        async with transport(url) as http:
            with pytest.raises(ConnectFailed, match="no connection to"):
                await http.post(url, HEADERS, b"x" * (32 << 20), HURRY_S)


@pytest.mark.parametrize("length", [100, 40_000])
async def test_a_connection_found_closed_when_it_is_written_to_is_not_done(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends between its choice and the first byte."""
    whole, send = _Body.pieces, _Exchange._send

    async def cut(body: _Body) -> AsyncIterator[memoryview]:
        connector: Any = isinstance(http, Transport) and http._session and http._session.connector
        for protocol in connector._acquired:
            protocol.transport.abort()
        async for piece in whole(body):
            yield piece

    def cut_send(exchange: _Exchange, connection: Any) -> None:
        connection.sock.shutdown(socket.SHUT_RDWR)
        send(exchange, connection)

    async with scripted(say()) as server, transport(server.url) as http:
        await http.post(server.url, HEADERS, BODY, limit_s())
        monkeypatch.setattr(_Body, "pieces", cut)
        monkeypatch.setattr(_Exchange, "_send", cut_send)
        with pytest.raises(ConnectFailed, match="was lost"):
            await http.post(server.url, HEADERS, b"x" * length, limit_s())
        monkeypatch.undo()
        await http.post(server.url, HEADERS, BODY, limit_s())
        assert (server.connections, len(server.requests)) == (2, 2)


async def test_a_reply_that_is_no_http_is_unknown() -> None:
    async with scripted(raw(b"SSH-2.0-server\r\n")) as server, transport(server.url) as http:
        with pytest.raises(NoReply):
            await http.post(server.url, HEADERS, BODY, limit_s())


async def test_a_reply_that_does_not_come_in_time_is_unknown() -> None:
    async with scripted(say(), never()) as server, transport(server.url) as http:
        await http.post(server.url, HEADERS, BODY, limit_s())  # so that there is a connection
        with pytest.raises(NoReply, match="within 1 s"):
            await http.post(server.url, HEADERS, BODY, HURRY_S)


async def test_a_late_reply_is_not_taken_for_that_of_the_next_request() -> None:
    given_up = asyncio.Event()
    answers = (say(), after(given_up, say(b"late")), say(b"right"))
    async with scripted(*answers) as server, transport(server.url) as http:
        await http.post(server.url, HEADERS, BODY, limit_s())  # so that there is a connection
        with pytest.raises(NoReply):
            await http.post(server.url, HEADERS, BODY, HURRY_S)
        given_up.set()
        reply = await http.post(server.url, HEADERS, BODY, limit_s())
        assert reply.body == b"right"


async def test_connections_that_the_server_closed_while_idle_are_not_used() -> None:
    async with scripted(say(then_close=True)) as server, transport(server.url) as http:
        for _ in range(50):
            assert (await http.post(server.url, HEADERS, BODY, limit_s())).status == 200
    assert server.connections == 50


async def test_the_number_of_connections_is_bounded() -> None:
    full = asyncio.Event()
    async with (
        scripted(after(full, say())) as server,
        transport(server.url, connections_max=3) as http,
    ):
        calls = [http.post(server.url, HEADERS, BODY, limit_s()) for _ in range(20)]
        replies = asyncio.gather(*calls)
        await eventually_async("all connections are used", lambda: len(server.requests) == 3)
        await stays_async("there is no fourth one", lambda: server.connections == 3)
        full.set()
        assert [call.status for call in await replies] == [200] * 20
    assert server.open_max == server.connections == 3


async def test_who_waits_too_long_for_a_connection_is_not_done() -> None:
    waited = asyncio.Event()
    async with (
        scripted(after(waited, say())) as server,
        transport(server.url, connections_max=1) as http,
    ):
        first = asyncio.create_task(http.post(server.url, HEADERS, BODY, limit_s()))
        await eventually_async("the connection is used", lambda: server.requests)
        with pytest.raises(ConnectFailed, match="no connection to"):
            await http.post(server.url, HEADERS, BODY, HURRY_S)
        waited.set()
        assert (await first).status == 200
    assert len(server.requests) == 1


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_reply_beyond_its_bound_is_cut(chunked: bool) -> None:
    large = b"x" * 5_000
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n"
    answer = raw(head + large + b"\r\n0\r\n\r\n", cut=False) if chunked else say(large)
    async with (
        scripted(answer, say(b"small")) as server,
        transport(server.url, reply_bytes_max=4_999) as http,
    ):
        with pytest.raises(NoReply, match="larger than reply_bytes_max"):
            await http.post(server.url, HEADERS, BODY, limit_s())
        assert (await http.post(server.url, HEADERS, BODY, limit_s())).body == b"small"


async def test_a_reply_of_exactly_the_bound_is_whole() -> None:
    async with (
        scripted(say(b"x" * 5_000)) as server,
        transport(server.url, reply_bytes_max=5_000) as http,
    ):
        assert len((await http.post(server.url, HEADERS, BODY, limit_s())).body) == 5_000


async def test_a_redirect_is_shown_and_not_followed() -> None:
    async with scripted(say(status=307, headers="Location: /other\r\n")) as server:
        async with transport(server.url) as http:
            assert (await http.post(server.url, HEADERS, BODY, limit_s())).status == 307
    assert len(server.requests) == 1


async def test_a_closed_transport_opens_nothing() -> None:
    async with scripted(say()) as server:
        async with transport(server.url) as http:
            await http.post(server.url, HEADERS, BODY, limit_s())
        with pytest.raises(ConnectFailed, match="closed"):
            await http.post(server.url, HEADERS, BODY, limit_s())
    assert server.connections == 1


# --- TLS -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> TlsFolder:
    return TlsFolder(tmp_path_factory.mktemp("tls"))


def server_context(folder: TlsFolder) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder.cert, folder.key)
    return context


async def test_a_certificate_of_a_known_authority_is_accepted(folder: TlsFolder) -> None:
    settings = TlsSettings(ca_file=str(folder.ca))
    async with scripted(say(), tls=server_context(folder)) as server:
        async with transport(server.url, tls=settings) as http:
            assert (await http.post(server.url, HEADERS, BODY, limit_s())).status == 200


async def test_a_certificate_of_a_stranger_is_refused_at_once(folder: TlsFolder) -> None:
    async with scripted(say(), tls=server_context(folder)) as server:
        async with transport(server.url) as http:
            with pytest.raises(ConfigError, match=r"trusted: .*issuer certificate"):
                await http.post(server.url, HEADERS, BODY, limit_s())
    assert server.requests == []


async def test_the_name_in_the_certificate_is_checked_unless_disabled(tmp_path: Path) -> None:
    folder = TlsFolder(tmp_path)
    made = folder.authority.issue_cert("elsewhere.example")
    made.private_key_and_cert_chain_pem.write_to_path(str(folder.cert))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder.cert)
    async with scripted(say(), tls=context) as server:
        async with transport(server.url, tls=TlsSettings(ca_file=str(folder.ca))) as http:
            with pytest.raises(ConfigError, match="certificate"):
                await http.post(server.url, HEADERS, BODY, limit_s())
        lenient = TlsSettings(ca_file=str(folder.ca), verify_host=False)
        async with transport(server.url, tls=lenient) as http:
            assert (await http.post(server.url, HEADERS, BODY, limit_s())).status == 200


async def test_a_client_shows_its_certificate(folder: TlsFolder, tmp_path: Path) -> None:
    context = server_context(folder)
    context.load_verify_locations(folder.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    own = tmp_path / "client.pem"
    made = folder.authority.issue_cert("client.example")
    made.private_key_and_cert_chain_pem.write_to_path(str(own))
    settings = TlsSettings(ca_file=str(folder.ca), cert_file=str(own))
    async with scripted(say(), tls=context) as server:
        async with transport(server.url, tls=settings) as http:
            assert (await http.post(server.url, HEADERS, BODY, limit_s())).status == 200


@pytest.mark.parametrize("field", ["ca_file", "cert_file"])
async def test_tls_files_that_cannot_be_used_are_named(tmp_path: Path, field: str) -> None:
    (tmp_path / "bad.pem").write_text("no certificate")
    given: dict[str, Any] = {field: str(tmp_path / "bad.pem")}
    settings = TlsSettings(**given)
    async with transport("https://127.0.0.1:1", tls=settings) as http:
        with pytest.raises(ConfigError, match=r"bad\.pem"):
            await http.post("https://127.0.0.1:1", HEADERS, BODY, limit_s())


async def test_requests_in_flight_end_when_their_transport_is_closed() -> None:
    async with scripted(never()) as server, transport(server.url) as http:
        posts = [http.post(server.url, HEADERS, BODY, limit_s()) for _ in range(3)]
        calls = [asyncio.create_task(post) for post in posts]
        await eventually_async("all requests arrive", lambda: len(server.requests) == 3)
        await http.close()
        async with within_limit("the requests end"):
            ended = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(error) for error in ended} == {NoReply}


async def test_a_call_that_is_cancelled_leaves_no_request_behind() -> None:
    async with scripted(never(), say(b"right")) as server, transport(server.url) as http:
        call = asyncio.create_task(http.post(server.url, HEADERS, BODY, limit_s()))
        await eventually_async("the request arrives", lambda: server.requests)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert (await http.post(server.url, HEADERS, BODY, limit_s())).body == b"right"


async def test_a_call_that_ended_while_its_thread_connected_is_never_sent(
    kind: type[Made], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was reported as not done, so its caller may have sent it again."""
    connect, may, done = HTTPConnection.connect, threading.Event(), threading.Event()

    def slow_connect(connection: HTTPConnection) -> None:
        may.wait(limit_s())
        connect(connection)

    run = _Exchange.run

    def noted_run(exchange: _Exchange, connection: HTTPConnection) -> Reply:
        try:
            return run(exchange, connection)
        finally:
            done.set()

    monkeypatch.setattr(HTTPConnection, "connect", slow_connect)
    monkeypatch.setattr(_Exchange, "run", noted_run)
    async with scripted(say()) as server, transport(server.url) as http:
        if kind is ThreadedTransport:
            with pytest.raises(ConnectFailed, match="no connection to"):
                await http.post(server.url, HEADERS, BODY, HURRY_S)
            may.set()
            await eventually_async("the thread of the call ends", done.is_set)
            assert server.requests == []
        may.set()
        await http.post(server.url, HEADERS, BODY, limit_s())
        assert len(server.requests) == 1

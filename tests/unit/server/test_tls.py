"""A certificate is replaced while the server runs; a failed handshake harms no other."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.tls_files import TlsFolder
from tests.waiting import elapse_async, eventually_async, limit_s, within_limit

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.reply_format import TEXT, head
from opentalos.gateway.http.server import HttpServer
from opentalos.model.limits import HttpLimits
from opentalos.model.settings.security import TlsSettings
from opentalos.server.ports.tls import ServerTls

pytestmark = pytest.mark.real_time

LOOK_S = 0.02
REQUEST = b"GET /x HTTP/1.1\r\n\r\n"


LARGE = 16 << 20  # bytes; more than the buffers between a server and its client
CLOSE_S = 0.1  # in which the end of TLS must be answered


def answer(exchange: Exchange) -> None:
    exchange.reply(head(200, TEXT), b"hello")


def answer_large(exchange: Exchange) -> None:
    exchange.reply(head(200, TEXT), b"x" * LARGE)


@dataclass
class Port:
    """A served port with TLS."""

    folder: TlsFolder
    tls: ServerTls
    http: HttpServer
    number: int

    async def connect(
        self, trust: ssl.SSLContext | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.number, ssl=trust)

    async def certificate(self) -> bytes:
        """What the port shows to a new connection."""
        _, writer = await self.connect(self.folder.trust())
        shown = writer.get_extra_info("ssl_object").getpeercert(True)
        writer.close()
        assert isinstance(shown, bytes)
        return shown

    @property
    def handshakes(self) -> tuple[int, int, int, int]:
        assert self.tls.port is not None
        made = self.tls.port.counters
        return made.begun, made.done, made.failed, made.refused


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(REQUEST)
    reply = await reader.readuntil(b"\r\n\r\nhello")
    return reply.partition(b"\r\n")[0]


@pytest.fixture
async def port(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Port]:
    folder = TlsFolder(tmp_path)
    more: dict[str, Any] = dict(getattr(request, "param", {}))
    limits = HttpLimits(write_stall_s=more.pop("write_stall_s", limit_s()))
    files = {"cert_file": str(folder.cert), "key_file": str(folder.key)}
    keys: dict[str, Any] = {"handshake_timeout_s": limit_s(), **files, **more}
    if more.get("client_ca_file"):
        keys["client_ca_file"] = str(folder.ca)
    tls = ServerTls(TlsSettings(reload_interval_s=LOOK_S, **keys))
    http = HttpServer(limits, {b"/x": answer, b"/large": answer_large})
    number = await http.listen("127.0.0.1", 0, tls.port)
    tls.start()
    yield Port(folder, tls, http, number)
    await tls.close()
    await http.drain(0.0)
    await elapse_async("connections that never finished their handshake see their end", LOOK_S)


async def test_new_connections_get_a_new_certificate_and_old_ones_stay_open(
    port: Port,
) -> None:
    before = await port.certificate()
    reader, writer = await port.connect(port.folder.trust())
    assert await ask(reader, writer) == b"HTTP/1.1 200 OK"
    port.folder.renew()
    await eventually_async("the files are read again", lambda: port.tls.reloads == 1)
    assert await port.certificate() != before
    assert await ask(reader, writer) == b"HTTP/1.1 200 OK"
    assert writer.get_extra_info("ssl_object").getpeercert(True) == before
    writer.close()


@pytest.mark.parametrize("broken", ["cert", "key"])
async def test_a_broken_new_file_keeps_the_old_certificate(
    port: Port, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    before = await port.certificate()
    path = getattr(port.folder, broken)
    path.write_bytes(b"half a certifi")
    await eventually_async("a reload fails", lambda: port.tls.reload_failures == 1)
    assert await port.certificate() == before
    (record,) = [item for item in caplog.records if item.levelno == logging.ERROR]
    assert str(path) in record.getMessage()
    port.folder.renew()
    await eventually_async("the files are read again", lambda: port.tls.reloads >= 1)
    assert await port.certificate() != before


async def test_a_file_that_is_gone_for_a_moment_does_no_harm(port: Port) -> None:
    before = await port.certificate()
    kept = port.folder.cert.read_bytes()
    port.folder.cert.unlink()
    await eventually_async("a reload fails", lambda: port.tls.reload_failures == 1)
    assert await port.certificate() == before
    port.folder.cert.write_bytes(kept)
    await eventually_async("the files are read again", lambda: port.tls.reloads == 1)


async def test_a_reload_request_reads_files_that_seem_unchanged(port: Port) -> None:
    port.tls.reload()
    await eventually_async("the files are read again", lambda: port.tls.reloads == 1)


async def test_plain_http_is_cut_and_counted_and_others_notice_nothing(port: Port) -> None:
    reader, writer = await port.connect(port.folder.trust())
    plain_reader, plain_writer = await port.connect(None)
    plain_writer.write(REQUEST)
    assert await plain_reader.read() == b""
    plain_writer.close()
    assert await ask(reader, writer) == b"HTTP/1.1 200 OK"
    writer.close()
    assert port.handshakes == (2, 1, 1, 0)


async def test_a_client_that_does_not_trust_us_is_counted(port: Port) -> None:
    def connect() -> None:
        with socket.create_connection(("127.0.0.1", port.number)) as plain:
            trust = ssl.create_default_context()
            with trust.wrap_socket(plain, server_hostname="localhost"):
                raise AssertionError("trusted a stranger")

    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.to_thread(connect)
    await eventually_async("the failure is counted", lambda: port.handshakes == (1, 0, 1, 0))


@pytest.mark.parametrize("port", [{"handshake_timeout_s": 1.0}], indirect=True)
async def test_a_stalled_handshake_is_closed(port: Port) -> None:
    reader, writer = await port.connect(None)
    writer.write(b"\x16\x03\x01")  # the beginning of a handshake
    async with within_limit("the handshake is cut"):
        assert await reader.read() == b""
    writer.close()
    assert (await port.certificate())[:1] == b"\x30"


@pytest.mark.parametrize("port", [{"handshakes_max": 2}], indirect=True)
async def test_more_handshakes_than_allowed_are_cut(port: Port) -> None:
    slow = [await port.connect(None) for _ in range(2)]
    await eventually_async("two handshakes begin", lambda: port.handshakes == (2, 0, 0, 0))
    reader, writer = await port.connect(None)
    async with within_limit("the handshake is cut"):
        assert await reader.read() == b""
    assert port.handshakes == (2, 0, 0, 1)
    writer.close()
    for _, stranger in slow:
        stranger.close()


@pytest.mark.parametrize("port", [{"client_ca_file": "the folder's"}], indirect=True)
async def test_mutual_tls_asks_for_a_certificate(port: Port, tmp_path: Path) -> None:
    reader, writer = await port.connect(port.folder.trust(shown=True))
    assert await ask(reader, writer) == b"HTTP/1.1 200 OK"
    writer.close()
    stranger = TlsFolder(tmp_path / "other").trust(shown=True)
    stranger.load_verify_locations(str(port.folder.ca))
    for trust in (port.folder.trust(), stranger):
        reader, writer = await port.connect(trust)  # TLS 1.3: refused after the client is done
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await ask(reader, writer)
        writer.close()
    assert port.handshakes == (3, 1, 2, 0)


@pytest.mark.parametrize("port", [{"minimum_version": "1.3"}], indirect=True)
async def test_an_older_version_is_refused(port: Port) -> None:
    trust = port.folder.trust()
    trust.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await port.connect(trust)
    assert await port.certificate()


async def test_a_client_that_says_it_is_done_gets_what_it_asked_for(port: Port) -> None:
    reader, writer = await port.connect(port.folder.trust())
    writer.write(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    async with within_limit("the reply ends"):
        reply = await reader.read()
    assert reply.endswith(b"hello")
    writer.close()
    await eventually_async("the connection ends", lambda: port.http.connections == 0)


async def test_a_large_reply_reaches_a_client_that_takes_its_time(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentalos.gateway.http.connection.TLS_CLOSE_S", CLOSE_S)
    reader, writer = await port.connect(port.folder.trust())
    writer.write(b"GET /large HTTP/1.1\r\nConnection: close\r\n\r\n")
    await elapse_async("TLS would wait no longer for its end", 5 * CLOSE_S)
    async with within_limit("the reply ends"):
        reply = await reader.read()
    assert len(reply) > LARGE
    writer.close()


@pytest.mark.parametrize("port", [{"write_stall_s": 0.5}], indirect=True)
async def test_a_client_that_does_not_read_is_cut(port: Port) -> None:
    with socket.create_connection(("127.0.0.1", port.number)) as plain:

        def ask_and_sleep() -> ssl.SSLSocket:
            kept = port.folder.trust().wrap_socket(plain, server_hostname="localhost")
            kept.sendall(b"GET /large HTTP/1.1\r\n\r\n")
            return kept

        kept = await asyncio.to_thread(ask_and_sleep)
        await eventually_async("the client is cut", lambda: port.http.cut == 1)
        await eventually_async("the connection ends", lambda: port.http.connections == 0)
        kept.close()


async def test_a_drain_does_not_wait_for_clients_that_say_nothing(port: Port) -> None:
    with socket.create_connection(("127.0.0.1", port.number)) as plain:

        def ask_and_sleep() -> ssl.SSLSocket:
            kept = port.folder.trust().wrap_socket(plain, server_hostname="localhost")
            kept.sendall(REQUEST)
            kept.recv(1)
            return kept

        kept = await asyncio.to_thread(ask_and_sleep)
        assert await port.http.drain(limit_s())
        assert port.http.cut == 0
        kept.close()


async def test_bad_handshakes_by_the_hundred_take_nothing_from_others(port: Port) -> None:
    reader, writer = await port.connect(port.folder.trust())
    for beginning in (b"", REQUEST, b"\x16\x03\x01\x00\x05hello", b"\x00" * 64):
        strangers = [await port.connect(None) for _ in range(50)]
        for _, stranger in strangers:
            stranger.write(beginning)
        assert await ask(reader, writer) == b"HTTP/1.1 200 OK"
        for _, stranger in strangers:
            stranger.close()
    assert await ask(reader, writer) == b"HTTP/1.1 200 OK"
    begun, done, _, refused = port.handshakes
    assert (begun, done, refused) == (201, 1, 0)
    await eventually_async("the failures are counted", lambda: port.handshakes[2] >= 150)
    assert port.http.connections == 1
    writer.close()


def test_authorities_of_the_system_are_read_with_the_first_call_to_a_server_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[ssl.SSLContext] = []
    default = ssl.create_default_context

    def counted() -> ssl.SSLContext:
        made.append(default())
        return made[-1]

    monkeypatch.setattr(ssl, "create_default_context", counted)
    tls = ServerTls(TlsSettings(minimum_version="1.3"))
    assert tls.port is None
    assert not made
    context = tls.client()
    assert tls.client() is context
    assert made == [context]
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3

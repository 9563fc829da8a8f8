"""TLS on the one port of real servers: clients, new certificates, servers among themselves."""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.conftest import Sdk
from tests.e2e.memory_cluster import memory_cluster, settled
from tests.e2e.rest.client import rest
from tests.raw_client import (
    COMPACT,
    RawClient,
    RawTopic,
    connection_to,
    encode_call,
    idl,
    signed_headers,
)
from tests.server_process import ROOT_KEY, TALOS, ServerProcess
from tests.tls_files import TlsFolder
from tests.waiting import completed, elapse, eventually, limit_s, scale

from opentalos.model.settings.security import TlsSettings
from opentalos.ports.peers import CallRequest

RELOAD_S = 0.05
PARTITIONS = 24  # so many that each of two servers has some
REFUSED = (ssl.SSLError, ConnectionError, http.client.HTTPException)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> TlsFolder:
    return TlsFolder(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(folder: TlsFolder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    config = folder.section(reload_interval_s=RELOAD_S)
    running = ServerProcess(tmp_path_factory.mktemp("server"), config).start()
    yield running
    running.stop()


def schedule(client: RawClient, topic: RawTopic) -> object:
    request = idl("message").GetScheduleInfoRequest(topicTalosResourceName=topic.resource)
    return client.call("message", "getScheduleInfo", request).scheduleInfo


def healthz(port: int, trust: ssl.SSLContext | None) -> int:
    connection = connection_to(port, trust)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    finally:
        connection.close()


def shown(port: int, trust: ssl.SSLContext) -> bytes:
    """The certificate that a new connection sees."""
    connection = connection_to(port, trust)
    connection.connect()
    assert isinstance(connection.sock, ssl.SSLSocket)
    certificate = connection.sock.getpeercert(True)
    connection.close()
    assert certificate is not None
    return certificate


def test_the_ready_line_and_server_json_have_the_https_url(server: ServerProcess) -> None:
    record = json.loads((server.data / "server.json").read_text())
    assert record["url"] == f"https://127.0.0.1:{server.port}"


def test_signed_calls_work_and_no_address_is_published(
    server: ServerProcess, folder: TlsFolder
) -> None:
    client = RawClient(server.port, tls=folder.trust())
    topic = RawTopic.create(client, "raw", partitions=3)
    topic.put(b"hello")
    assert topic.get(0).messageNumber == 1
    assert schedule(client, topic) == {}
    client.close()


def test_the_official_sdk_works_over_https(server: ServerProcess, folder: TlsFolder) -> None:
    sdk = Sdk(server, {"SSL_CERT_FILE": str(folder.ca)})
    sdk.topic("official")
    payloads = [f"m{number}" for number in range(50)]
    (read,) = sdk.run(
        "simple_roundtrip", topic="official", partition=0, payloads=payloads, batch=10, start=0
    )
    assert read["payloads"] == payloads


def test_plain_http_is_cut_while_others_are_served(
    server: ServerProcess, folder: TlsFolder
) -> None:
    client = RawClient(server.port, tls=folder.trust())
    topic = RawTopic.create(client, "others")
    with pytest.raises(REFUSED):
        healthz(server.port, None)
    topic.put(b"x")
    client.close()


@pytest.mark.parametrize("signalled", [False, True], ids=["seen", "by SIGHUP"])
def test_a_new_certificate_is_taken_without_a_restart(
    tmp_path: Path, folder: TlsFolder, signalled: bool
) -> None:
    mine = TlsFolder(tmp_path, folder.authority)
    interval_s = 3600.0 if signalled else RELOAD_S
    server = ServerProcess(tmp_path / "server", mine.section(reload_interval_s=interval_s)).start()
    try:
        client = RawClient(server.port, tls=mine.trust())
        topic = RawTopic.create(client, "kept")
        before = shown(server.port, mine.trust())
        mine.renew()
        if signalled:
            os.kill(server.pid, signal.SIGHUP)
        eventually(
            "a new connection sees the new certificate",
            lambda: shown(server.port, mine.trust()) != before,
            state=server.stderr,
        )
        topic.put(b"over the old connection")
        client.close()
    finally:
        assert server.stop() == 0


def test_mutual_tls_serves_those_who_show_a_certificate(tmp_path: Path, folder: TlsFolder) -> None:
    config = folder.section(client_ca_file=str(folder.ca))
    server = ServerProcess(tmp_path, config).start()
    try:
        client = RawClient(server.port, tls=folder.trust(shown=True))
        RawTopic.create(client, "private").put(b"x")
        client.close()
        with pytest.raises(REFUSED):
            healthz(server.port, folder.trust())
        assert healthz(server.port, folder.trust(shown=True)) == 200
    finally:
        assert server.stop() == 0


def test_a_mapped_certificate_is_a_principal_on_every_protocol(
    tmp_path: Path, folder: TlsFolder
) -> None:
    config = folder.section(
        client_ca_file=str(folder.ca), client_principals="dns=*.example", client_optional=True
    ).replace("True", "true")
    server = ServerProcess(tmp_path, config).start()
    shown, unknown = folder.trust(shown=True), folder.trust()  # of client.example
    try:
        replied = _listed(server, shown)
        assert (replied[0], "unknown or disabled principal" in replied[1]) == (401, True)
        as_root = rest(server, "POST", "principals", {"id": "client"}, trust=unknown)
        assert as_root.status == 201
        assert _listed(server, shown) == (200, '"client"')
        assert _listed(server, unknown)[0] == 401
        path, body = "/v1/api/topic", encode_call("topic", "listTopicsInfo", None)
        sent = {"Content-Type": COMPACT}
        for trust, status in ((shown, 200), (unknown, 401)):
            client = RawClient(server.port, tls=trust)
            assert client.send(path, body, sent).status == status
            client.close()
    finally:
        assert server.stop() == 0


def _listed(server: ServerProcess, trust: ssl.SSLContext) -> tuple[int, str]:
    """Status, and who is listed to a caller without Authorization, or why nobody is."""
    connection = connection_to(server.port, trust)
    try:
        connection.request("GET", "/rest/v1/principals")
        reply = connection.getresponse()
        document = json.loads(reply.read())
        names = [item["id"] for item in document.get("principals", ())]
        return reply.status, json.dumps(names)[1:-1] or str(document)
    finally:
        connection.close()


def open_get(server: ServerProcess, topic: RawTopic, trust: ssl.SSLContext) -> ssl.SSLSocket:
    """Ask for all that is there, on a connection that ends with the reply; nothing is read."""
    request = idl("message").GetMessageRequest(
        topicAndPartition=topic.partition(), messageOffset=0, sequenceId="slow#1"
    )
    path, body = "/v1/api/message", encode_call("message", "getMessage", request)
    headers = {
        **signed_headers(path, body, COMPACT, ROOT_KEY),
        "Connection": "close",
        "Content-Length": str(len(body)),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    plain = socket.create_connection(("127.0.0.1", server.port), timeout=limit_s())
    secure = trust.wrap_socket(plain, server_hostname="127.0.0.1")
    secure.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode() + body)
    return secure


def read_all(secure: ssl.SSLSocket) -> int:
    count = 0
    while data := secure.recv(1 << 20):
        count += len(data)
    return count


def test_a_slow_client_gets_its_reply_and_one_that_never_reads_is_cut(
    tmp_path: Path, folder: TlsFolder
) -> None:
    stall_s, stored = 4.0 * scale(), 9 << 20
    config = f"[http]\nwrite_stall_s = {stall_s}\n[metrics]\naccess = 'open'\n"
    server = ServerProcess(tmp_path, folder.section() + config).start()
    try:
        client = RawClient(server.port, tls=folder.trust())
        topic = RawTopic.create(client, "large")
        for _ in range(9):
            topic.put(b"x" * (1 << 20))
        client.close()
        with open_get(server, topic, folder.trust()) as slow:
            elapse("a client may leave its reply unread for less than write_stall_s", stall_s / 4)
            assert read_all(slow) > stored
        with open_get(server, topic, folder.trust()) as asleep:
            cut = "\nopentalos_connections_cut_total 1.0\n"
            eventually("the other connection is cut", lambda: cut in page(server, folder))
            with contextlib.suppress(ssl.SSLError, ConnectionError):
                assert read_all(asleep) < stored
    finally:
        assert server.stop() == 0


def page(server: ServerProcess, folder: TlsFolder) -> str:
    """/metrics."""
    connection = connection_to(server.port, folder.trust())
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return text


@pytest.mark.parametrize("key", ["cert_file", "key_file"])
def test_a_file_that_is_not_there_ends_the_start_with_one_line(
    tmp_path: Path, folder: TlsFolder, key: str
) -> None:
    path = tmp_path / "c.toml"
    path.write_text(folder.section(**{key: "/nowhere.pem"}))
    command: list[str | Path] = [TALOS, "serve", "--config", path, "--data", tmp_path / "data"]
    done = completed([*command, "--listen", "127.0.0.1:0"])
    assert done.returncode == 1
    assert f"[tls] {key}: cannot read /nowhere.pem" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("mutual", [False, True])
async def test_servers_of_a_cluster_forward_to_each_other_over_tls(
    folder: TlsFolder, mutual: bool
) -> None:
    settings = TlsSettings(
        cert_file=str(folder.cert),
        key_file=str(folder.key),
        peer_ca_file=str(folder.ca),
        client_ca_file=str(folder.ca) if mutual else "",
    )
    async with memory_cluster(2, tls=settings, trust=folder.trust(shown=mutual)) as servers:
        clients = [server.client() for server in servers]
        topic = await asyncio.to_thread(RawTopic.create, clients[0], "t", partitions=PARTITIONS)
        uuid = topic.resource.topicTalosResourceName.rsplit("#", 1)[1]
        owners = await settled(servers, uuid, PARTITIONS)
        for number, client in enumerate(clients):
            there = RawTopic(client, "t", topic.resource)
            for partition in range(PARTITIONS):
                put = await asyncio.to_thread(there.put, b"x", partition=partition)
                assert bool(put.isTransfer) is (owners[partition] != number)
            assert await asyncio.to_thread(schedule, client, topic) == {}
        assert sum(item.counters()["requests"] for item in servers) == PARTITIONS
        assert sum(item.counters()["failures"] for item in servers) == 0
        for client in clients:
            client.close()


async def test_a_server_that_others_do_not_trust_is_not_spoken_to(
    folder: TlsFolder, tmp_path: Path
) -> None:
    stranger = TlsFolder(tmp_path)
    settings = TlsSettings(
        cert_file=str(folder.cert), key_file=str(folder.key), peer_ca_file=str(stranger.ca)
    )
    async with memory_cluster(2, tls=settings, trust=folder.trust()) as servers:
        peers, other = servers[0].member.peers, servers[1]
        # The check of the port needs no TLS.
        assert not await peers.refuses(other.address)
        with socket.create_server(("127.0.0.1", 0)) as free:
            nobody = f"https://127.0.0.1:{free.getsockname()[1]}"
        assert await peers.refuses(nobody)
        with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
            await peers.ask(other.address, CallRequest("status", b"{}", 1))


async def test_servers_with_and_without_tls_work_together(folder: TlsFolder) -> None:
    """As during the change of a cluster to TLS, one server after the other."""
    plain = TlsSettings(peer_ca_file=str(folder.ca))
    settings = TlsSettings(
        cert_file=str(folder.cert), key_file=str(folder.key), peer_ca_file=str(folder.ca)
    )
    async with memory_cluster(2, tls=plain) as servers:
        await servers[1].stop()
        servers[1].port, servers[1].tls, servers[1].trust = 0, settings, folder.trust()
        await servers[1].start()
        clients = [server.client() for server in servers]
        topic = await asyncio.to_thread(RawTopic.create, clients[0], "t", partitions=PARTITIONS)
        uuid = topic.resource.topicTalosResourceName.rsplit("#", 1)[1]
        owners = await settled(servers, uuid, PARTITIONS)
        for number, client in enumerate(clients):
            there = RawTopic(client, "t", topic.resource)
            for partition in range(PARTITIONS):
                put = await asyncio.to_thread(there.put, b"x", partition=partition)
                assert bool(put.isTransfer) is (owners[partition] != number)
            # Clients of the plain server would dial the other one by plain HTTP.
            assert await asyncio.to_thread(schedule, client, topic) == {}
            client.close()

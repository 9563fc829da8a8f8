"""Attacks on what all callers share, over real sockets: another caller is served meanwhile."""

import contextlib
import http.client
import os
import selectors
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.rest.client import authorization, rest
from tests.raw_client import RawClient, RawTopic
from tests.server_process import ROOT_KEY, Key, ServerProcess
from tests.waiting import eventually, limit_s

BODY_BYTES = 32 << 20  # [http] body_bytes_max
POLLS = 2_000
PIECE_BYTES = 1 << 20
GUESSES = 300
BURST = 50  # [auth] failures_max
OTHER_ADDRESS = "127.0.0.2"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path).start()
    yield process
    process.kill()


def connected(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=limit_s())


def user(server: ServerProcess, name: str) -> Key:
    """A tenant with a key."""
    assert rest(server, "POST", "principals", {"id": name}).status == 201
    issued = rest(server, "POST", f"principals/{name}/keys").document
    return Key(issued["key_id"], issued["secret"])


def resident_bytes(server: ServerProcess) -> int:
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))


def send_body(connection: socket.socket, count: int) -> bool:
    """False: the server answered before all was sent."""
    piece = b"x" * PIECE_BYTES
    with contextlib.suppress(OSError):
        while count > 0:
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                if connection.recv(1, socket.MSG_PEEK):
                    return False
            connection.settimeout(limit_s())
            connection.sendall(piece[:count])
            count -= PIECE_BYTES
        return True
    return False


def test_bodies_of_strangers_do_not_take_the_memory_of_others(server: ServerProcess) -> None:
    client = RawClient(server.port)
    topic = RawTopic.create(client, "victim")
    topic.put(os.urandom(PIECE_BYTES))
    idle_bytes = resident_bytes(server)
    head = f"POST /v1/api/message HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
    with contextlib.ExitStack() as stack:
        held, replies = 0, []
        for _ in range(17):
            connection = stack.enter_context(connected(server))
            connection.sendall(head.encode())
            if send_body(connection, BODY_BYTES - 1):
                held += 1
            else:
                connection.settimeout(limit_s())
                replies.append(connection.recv(4096))
        assert held <= 2, "strangers hold more than their share"
        assert all(reply.startswith(b"HTTP/1.1 503 ") for reply in replies)
        assert all(b"\r\nRetry-After: 1\r\n" in reply for reply in replies)
        for _ in range(5):
            topic.put(os.urandom(PIECE_BYTES))
        assert rest(server, "GET", "topics").status == 200
    client.close()
    eventually(
        f"the memory is free again, where {idle_bytes >> 20} MiB were in use before",
        lambda: resident_bytes(server) <= 1.5 * idle_bytes,
        state=lambda: f"{resident_bytes(server) >> 20} MiB",
    )


def poll_of(key: Key) -> bytes:
    token = authorization(key)["Authorization"]
    return (
        "GET /rest/v1/topics/t/partitions/0/messages?offset=0&wait_s=30 HTTP/1.1\r\n"
        f"Host: x\r\nAuthorization: {token}\r\n\r\n"
    ).encode()


def topic_of(server: ServerProcess, key: Key) -> None:
    made = rest(server, "POST", "topics", {"name": "t", "partitions": 1}, authorization(key))
    assert made.status == 201


def first_bytes(connections: list[socket.socket], count: int) -> list[bytes]:
    """What the first ``count`` connections get that are answered or closed; b"": closed."""
    found: list[bytes] = []
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ)

        def enough() -> bool:
            for key, _ in selector.select(0):
                reply = b""
                with contextlib.suppress(ConnectionResetError):
                    reply = key.fileobj.recv(64)  # type: ignore[union-attr]
                found.append(reply)
                selector.unregister(key.fileobj)
            return len(found) >= count

        what = f"{count} connections are answered or closed"
        eventually(what, enough, state=lambda: f"{len(found)} are")
    return found


def test_half_closed_long_polls_free_their_places_at_once(server: ServerProcess) -> None:
    attacker, victim = user(server, "mallory"), user(server, "alice")
    topic_of(server, attacker)
    request = poll_of(attacker)
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(POLLS):
            connection = stack.enter_context(connected(server))
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            connections.append(connection)
        assert rest(server, "GET", "topics", headers=authorization(victim)).status == 200
        assert rest(server, "GET", "principals").status == 200
        closed = first_bytes(connections, POLLS)
        assert len(closed) == POLLS
        # A poll that still waited would be answered at its end.
        assert not any(reply.startswith(b"HTTP/1.1 200 ") for reply in closed)
    assert rest(server, "GET", "topics", headers=authorization(attacker)).status == 200


def test_long_polls_of_one_tenant_leave_places_to_others(server: ServerProcess) -> None:
    attacker, victim = user(server, "mallory"), user(server, "alice")
    topic_of(server, attacker)
    request = poll_of(attacker)
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connected(server)) for _ in range(POLLS)]
        for connection in connections:
            connection.sendall(request)
        assert rest(server, "GET", "topics", headers=authorization(victim)).status == 200
        assert rest(server, "GET", "principals").status == 200
        refused = first_bytes(connections, POLLS // 2)
        assert len(refused) >= POLLS // 2
        assert all(reply.startswith(b"HTTP/1.1 503 ") for reply in refused if reply)


def test_wrong_secrets_are_answered_unchecked_and_lock_nobody_out(server: ServerProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=limit_s())
    seen: Counter[int] = Counter()
    for number in range(GUESSES):
        guess = authorization(Key(ROOT_KEY.key_id, f"guess-{number}"))
        connection.request("GET", "/rest/v1/principals", headers=guess)
        reply = connection.getresponse()
        reply.read()
        seen[reply.status] += 1
        if reply.status == 429:
            assert reply.headers["Retry-After"] == "1"
    assert set(seen) == {401, 429}
    assert BURST <= seen[401] < GUESSES, "guesses are checked without a bound, or too few"
    connection.close()
    elsewhere = http.client.HTTPConnection(
        "127.0.0.1", server.port, timeout=limit_s(), source_address=(OTHER_ADDRESS, 0)
    )
    elsewhere.request("GET", "/rest/v1/principals", headers=authorization())
    assert elsewhere.getresponse().status == 200
    elsewhere.close()
    assert "authentication failed" in (server.folder / "server.stderr").read_text()

"""Behaviours that need no key: sockets, heads and secrets."""

import contextlib
import gzip
import itertools
import secrets
import socket
import time

from bench.noisy.attacker import SHORT_S, Attacker

BODY_BYTES = 32 << 20  # [http] body_bytes_max
BODIES = 20
PIECE = b"x" * (1 << 16)
SLOW_SENDERS = 300
FLOOD = 2_000
PIPELINED = 2_000
HEADERS_BYTES = 64 << 10
THREADS = 4


def bodies(attacker: Attacker) -> None:
    """Announce bodies of 32 MiB without a key, send all but the last byte and wait."""
    head = f"POST /v1/api/message HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
    with contextlib.ExitStack() as held:
        for _ in range(BODIES):
            connection = held.enter_context(attacker.connect())
            connection.sendall(head.encode())
            with contextlib.suppress(OSError):
                for _ in range(BODY_BYTES // len(PIECE) - 1):
                    if not attacker.running:
                        break
                    connection.sendall(PIECE)
            connection.settimeout(SHORT_S)
            attacker.status(connection)
        attacker.wait()


def _byte_by_byte(attacker: Attacker, text: bytes) -> None:
    with contextlib.ExitStack() as held:
        connections = [held.enter_context(attacker.connect()) for _ in range(SLOW_SENDERS)]
        for at in itertools.cycle(range(len(text))):
            if not attacker.running:
                break
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.sendall(text[at : at + 1])
            time.sleep(0.01)


def slow_heads(attacker: Attacker) -> None:
    """Send heads of requests byte by byte over hundreds of connections."""
    _byte_by_byte(attacker, b"GET /rest/v1/topics HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * 1_000)


def slow_bodies(attacker: Attacker) -> None:
    """Send bodies byte by byte over hundreds of connections."""
    with contextlib.ExitStack() as held:
        connections = [held.enter_context(attacker.connect()) for _ in range(SLOW_SENDERS)]
        for connection in connections:
            connection.sendall(
                b"POST /v1/api/topic HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n"
            )
        while attacker.running:
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.sendall(b"x")
            time.sleep(0.01)


def connection_flood(attacker: Attacker) -> None:
    """Hold thousands of idle connections, and open and close further ones without pause."""
    with contextlib.ExitStack() as held:
        for _ in range(FLOOD):
            if not attacker.running:
                break
            with contextlib.suppress(OSError):
                held.enter_context(attacker.connect())
        while attacker.running:
            with contextlib.suppress(OSError):
                attacker.connect().close()


def huge_headers(attacker: Attacker) -> None:
    """Send heads of 64 KiB, and single names without an end."""
    line = b"X-Padding: " + b"p" * 1_000 + b"\r\n"
    head = b"GET /rest/v1/topics HTTP/1.1\r\nHost: x\r\n" + line * (HEADERS_BYTES // len(line))
    attacker.together(THREADS, lambda: attacker.once(head, b"\r\n"))


def malformed(attacker: Attacker) -> None:
    """Send bytes that are no HTTP."""
    texts = itertools.cycle(
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n", b"\0" * 4_096,
         b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
         b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n")
    )  # fmt: skip
    attacker.together(1, lambda: attacker.once(next(texts)))


def pipelined(attacker: Attacker) -> None:
    """Send thousands of requests at once and read no reply."""
    text = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * PIPELINED

    def send() -> None:
        with contextlib.suppress(OSError), attacker.connect(SHORT_S) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(text)
            attacker.status(connection)

    attacker.together(THREADS, send)


def upgrades(attacker: Attacker) -> None:
    """Ask for other protocols with a body behind, which is no request of its own."""
    hidden = b"POST /rest/v1/principals HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    head = b"GET /rest/v1/topics HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: %b\r\n"
    kinds = itertools.cycle((b"h2c", b"websocket", b"TLS/1.0"))
    length = b"Content-Length: %d\r\n\r\n" % len(hidden)
    attacker.together(1, lambda: attacker.once(head % next(kinds), length, hidden))


def wrong_secrets(attacker: Attacker) -> None:
    """Guess secrets of one key and of keys that do not exist."""
    connection = attacker.kept()
    while attacker.running:
        guess = {"Authorization": f"Bearer {secrets.token_urlsafe(30)}"}
        attacker.raw_call(connection, "GET", "/rest/v1/topics", headers=guess)
        known = Attacker(attacker.ports, attacker.key.__class__(attacker.key.id, "guess"), 0.0)
        attacker.raw_call(connection, "GET", "/rest/v1/topics", headers=known.authorization)
    connection.close()


def half_closed(attacker: Attacker) -> None:
    """Send half a request and close the sending side, without pause."""

    def send() -> None:
        with contextlib.suppress(OSError), attacker.connect() as connection:
            connection.sendall(b"POST /v1/api/topic HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n")
            connection.shutdown(socket.SHUT_WR)
            attacker.status(connection)

    attacker.together(THREADS, send)


def compressed_bodies(attacker: Attacker) -> None:
    """Send bodies that claim to be compressed, with a bomb inside."""
    bomb = gzip.compress(b"[" * (16 << 20))
    head = b"POST /v1/api/topic HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"
    length = b"Content-Length: %d\r\n\r\n" % len(bomb)
    attacker.together(THREADS, lambda: attacker.once(head, length, bomb))

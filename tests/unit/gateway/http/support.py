"""Connections on fake transports: no socket, no waiting."""

import asyncio
import re
from collections.abc import Iterable
from dataclasses import replace

from opentalos.gateway.http.connection import HttpConnection
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.fairness.turns import Turns
from opentalos.gateway.http.reply_format import TEXT, head
from opentalos.gateway.http.server import HttpServer
from opentalos.model.limits import HttpLimits

LIMITS = HttpLimits(
    body_bytes_max=1000, bodies_bytes_total_max=4 << 20, header_bytes_max=1 << 10, connections_max=2
)
TIGHT = replace(LIMITS, bodies_bytes_total_max=1500)


class FakeTransport(asyncio.Transport):
    """Records what is written."""

    def __init__(self, peer: str = "127.0.0.9") -> None:
        super().__init__()
        self.peer = peer
        self.written = b""
        self.writes = 0
        self.closed = self.aborted = self.eof = False
        self.reading = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.closed:
            raise RuntimeError("write to a closed transport")
        self.writes += 1
        self.written += bytes(data)

    def writelines(self, chunks: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(chunks))

    def get_extra_info(self, name: str, default: object = None) -> object:
        return (self.peer, 1234) if name == "peername" else default

    def get_write_buffer_size(self) -> int:
        return 1

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def closing_called(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.eof = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Bench:
    """A server whose handler keeps the exchanges; connections on fake transports."""

    def __init__(self, limits: HttpLimits = LIMITS) -> None:
        self.seen: list[Exchange] = []
        self.server = HttpServer(limits, {b"/echo": self.echo, b"/boom": self.boom}, [
            (b"/keep/", self.seen.append),
        ])  # fmt: skip
        self.now_s = 0.0
        self.server.turns = Turns(lambda: self.now_s)
        self.server.date, self.server.head_end = b"\r\nDate: x\r\n", b"\r\nDate: x\r\n\r\n"

    async def all_turns(self) -> int:
        """How many passes of the loop it takes until no connection waits for its turn."""
        passes = 0
        while self.server.turns.waiting:
            await asyncio.sleep(0)
            passes += 1
        return passes

    @staticmethod
    def echo(exchange: Exchange) -> None:
        exchange.reply(head(200, TEXT), exchange.body)

    @staticmethod
    def boom(exchange: Exchange) -> None:
        raise ValueError("a secret detail")

    def connect(self, peer: str = "127.0.0.9") -> tuple[HttpConnection, FakeTransport]:
        connection, transport = HttpConnection(self.server), FakeTransport(peer)
        connection.connection_made(transport)
        return connection, transport


def request(path: str = "/echo", body: bytes = b"", more: str = "", version: str = "1.1") -> bytes:
    return (
        f"POST {path} HTTP/{version}\r\nHost: a\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def statuses(written: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", written)]

"""A port that takes HTTP requests and does with each what a test says."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class ScriptedServer:
    """``answers`` are used in turn, the last one for all that follow."""

    answers: list[Answer]
    port: int = 0
    scheme: str = "http"
    requests: list[bytes] = field(default_factory=list)  # header and body
    connections: int = 0  # ever
    open: int = 0
    open_max: int = 0

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        self.open_max = max(self.open_max, self.open)
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                await answer(writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass  # the client left, or the test ends
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def scripted(
    *answers: Answer, tls: ssl.SSLContext | None = None
) -> AsyncIterator[ScriptedServer]:
    """A port on the loopback with these answers."""
    script = ScriptedServer(list(answers), scheme="https" if tls else "http")
    server = await asyncio.start_server(script.serve, "127.0.0.1", 0, ssl=tls)
    script.port = server.sockets[0].getsockname()[1]
    try:
        yield script
    finally:
        server.close()


def say(
    body: bytes = b"ok", status: int = 200, headers: str = "", *, then_close: bool = False
) -> Answer:
    """A whole reply; ``then_close``: without a word about it in its headers."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        writer.write(head.encode() + body)
        if then_close:
            writer.close()

    return answer


def raw(data: bytes, *, cut: bool = True) -> Answer:
    """Bytes as they are, then the end of the connection."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        if cut:
            writer.close()

    return answer


def after(event: asyncio.Event, answer: Answer) -> Answer:
    """The answer as soon as the event is set."""

    async def wait(writer: asyncio.StreamWriter) -> None:
        await event.wait()
        await answer(writer)

    return wait


def never() -> Answer:
    """No answer; the connection stays open."""
    return after(asyncio.Event(), say())

"""A port that leads to another one, with faults on demand: delay, silence, cut, a lost answer."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

from tests.waiting import elapse_async

T = TypeVar("T")
HOST = "127.0.0.1"
CHUNK_BYTES = 64 << 10
TURNS = 10  # of the loop: more than it needs to take, serve and close a connection
MUTE_S = 0.1  # between an answer that is lost and the end of its connection


class _Link:
    """One client's connection and ours behind it."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client, self.server = client, server
        self.mute = False  # answers are thrown away

    def close(self) -> None:
        self.client.transport.abort()
        self.server.transport.abort()


class TcpProxy:
    """Runs on a thread of its own; all methods may be called from any thread."""

    def __init__(self, port: int, host: str = HOST) -> None:
        self._target = (host, port)
        self._served: set[asyncio.Task[None]] = set()  # one for each connection
        self._audible = asyncio.Event()
        self._audible.set()
        self._delay_s = 0.0
        self._loses: Callable[[bytes], bool] | None = None
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = 0
        self.restore()

    @property
    def address(self) -> str:
        """HOST:PORT for clients."""
        return f"{HOST}:{self.port}"

    @property
    def connections(self) -> int:
        """How many it has, also those that are being made."""
        return len(self._served)

    def delay(self, seconds: float) -> None:
        """Hold every chunk back for so long, in both directions; 0 ends it."""
        self._delay_s = seconds

    def silence(self) -> None:
        """Forward nothing; connections stay open, new ones are taken but hear nothing."""
        self._run(self._hush())

    def cut(self) -> None:
        """Break all connections and refuse new ones."""
        self._run(self._close())

    def drop(self) -> None:
        """Break all connections; new ones are taken."""
        self._loop.call_soon_threadsafe(self._drop)

    def restore(self) -> None:
        """End silence and refusal."""
        self._run(self._listen())

    def lose_answer(self, matches: Callable[[bytes], bool]) -> None:
        """Forward the next chunk of a client that ``matches``, then throw the answers on that
        connection away and break it."""
        self._loses = matches

    def close(self) -> None:
        """End the proxy and its thread."""
        if self._thread.is_alive():
            self._run(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> "TcpProxy":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    # --- on the thread --------------------------------------------------------------------------

    async def _hush(self) -> None:
        self._audible.clear()

    async def _listen(self) -> None:
        self._audible.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, HOST, self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            # A server that closes while it takes a connection forgets it, in Python 3.11.
            self._loop.remove_reader(server.sockets[0].fileno())
            await self._turns()
            server.close()
        served = self._drop()
        await asyncio.gather(*served, return_exceptions=True)

    async def _end(self) -> None:
        await self._close()
        await self._turns()

    async def _turns(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)

    def _drop(self) -> list[asyncio.Task[None]]:
        served = list(self._served)
        for task in served:
            task.cancel()
        return served

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection, which ends with its task, also if that is cancelled at once."""

        def ended(task: asyncio.Task[None]) -> None:
            self._served.discard(task)
            writer.transport.abort()

        task = self._loop.create_task(self._serve(reader, writer))
        self._served.add(task)
        task.add_done_callback(ended)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except OSError:
            return
        link = _Link(writer, server_writer)
        pumps = [
            asyncio.create_task(self._to_server(reader, link)),
            asyncio.create_task(self._to_client(server_reader, link)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            link.close()

    async def _to_server(self, reader: asyncio.StreamReader, link: _Link) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            await self._hold()
            if self._loses is not None and self._loses(chunk):
                self._loses = None
                link.mute = True
            link.server.write(chunk)
            await link.server.drain()

    async def _to_client(self, reader: asyncio.StreamReader, link: _Link) -> None:
        while chunk := await reader.read(CHUNK_BYTES):
            await self._hold()
            if link.mute:  # not before the server did what it was asked for
                self._loop.call_later(MUTE_S, link.close)
                continue
            link.client.write(chunk)
            await link.client.drain()

    async def _hold(self) -> None:
        if self._delay_s:
            await elapse_async("the chunk is late", self._delay_s)
        await self._audible.wait()

"""A network namespace for one server, and bridges into and out of it that can be cut.

Everything keeps its address: a bridge listens at 127.0.0.1:PORT on one side and connects to
127.0.0.1:PORT on the other. A cut bridge takes connections and moves no byte, as a network does
that loses every packet; what was sent arrives when it is mended.
"""

import asyncio
import contextlib
import ctypes
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.server_process import TALOS
from tests.waiting import completed

_CLONE_NEWNET = 0x40000000
_CHUNK_BYTES = 1 << 16
_BACKLOG = 256
_HOST = "127.0.0.1"

Make = Callable[[], socket.socket]


class Namespace:
    """A namespace that only has loopback; ``launcher`` starts a server in it."""

    def __init__(self) -> None:
        self.name = f"talos-{os.urandom(4).hex()}"
        _ip("netns", "add", self.name)
        _ip("-n", self.name, "link", "set", "lo", "up")
        # A socket belongs to the namespace of the thread that makes it, whoever uses it then.
        self._inside = ThreadPoolExecutor(1, initializer=self._enter)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._bridges: list[Bridge] = []

    @property
    def launcher(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.name, str(TALOS), "serve")

    def lead_in(self, port: int, target: int | None = None) -> "Bridge":
        """From ``port`` outside to ``target`` inside, by default the same port."""
        return self._bridge(port, target or port, socket.socket, self.socket)

    def lead_out(self, port: int) -> "Bridge":
        """From a port inside to the same one outside."""
        return self._bridge(port, port, self.socket, socket.socket)

    def socket(self) -> socket.socket:
        """A socket inside."""
        return self._inside.submit(socket.socket).result()

    def close(self) -> None:
        """Remove it; what runs in it must have ended."""
        for bridge in self._bridges:
            asyncio.run_coroutine_threadsafe(bridge.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._inside.shutdown()
        _ip("netns", "del", self.name)

    def _enter(self) -> None:
        with open(f"/run/netns/{self.name}") as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")

    def _bridge(self, port: int, target: int, near: Make, far: Make) -> "Bridge":
        async def begin() -> Bridge:
            bridge = Bridge(port, target, near, far)
            bridge.start()
            return bridge

        made = asyncio.run_coroutine_threadsafe(begin(), self._loop).result()
        self._bridges.append(made)
        return made


class Bridge:
    """Connections from a port of one side to a port of the other."""

    def __init__(self, port: int, target: int, near: Make, far: Make) -> None:
        self._port, self._target, self._near, self._far = port, target, near, far
        self._mended = asyncio.Event()
        self._mended.set()
        self._loop = asyncio.get_running_loop()
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """From now on no byte passes."""
        self._loop.call_soon_threadsafe(self._mended.clear)

    def mend(self) -> None:
        """What waits passes."""
        self._loop.call_soon_threadsafe(self._mended.set)

    def start(self) -> None:
        self._listener = self._near()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((_HOST, self._port))
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        self._spawn(self._accept(self._listener))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            near, _ = await self._loop.sock_accept(listener)
            near.setblocking(False)
            self._spawn(self._serve(near))

    async def _serve(self, near: socket.socket) -> None:
        with near:
            await self._mended.wait()
            with self._far() as far:
                far.setblocking(False)
                with contextlib.suppress(OSError):
                    await self._loop.sock_connect(far, (_HOST, self._target))
                    await asyncio.gather(self._pump(near, far), self._pump(far, near))

    async def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        while True:
            data = await self._loop.sock_recv(source, _CHUNK_BYTES)
            await self._mended.wait()
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            await self._loop.sock_sendall(sink, data)


@contextlib.contextmanager
def namespace() -> Iterator[Namespace]:
    """A namespace; needs root."""
    if os.getuid() != 0:
        if os.environ.get("CI"):  # a skip there would hide that the fault was never tried
            pytest.fail("a network namespace needs root")
        pytest.skip("a network namespace needs root")
    made = Namespace()
    try:
        yield made
    finally:
        made.close()


def _ip(*arguments: str) -> None:
    completed(["ip", *arguments], check=True)

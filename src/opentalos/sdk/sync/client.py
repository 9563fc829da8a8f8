"""The synchronous client: an asyncio one on the loop thread, created again after a fork."""

import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Self, TypeVar

from opentalos.sdk.aio.connection.client import Client as AsyncClient
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.errors import ClientClosed
from opentalos.sdk.sync.loop_thread import LoopThread

_T = TypeVar("_T")
_Inner = TypeVar("_Inner")


class Client:
    """Connections, clock offset, addresses and topics, shared by synchronous objects.

    Any thread may use it. In a forked child it opens its own connections.
    """

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self._made: tuple[LoopThread, AsyncClient] | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self, call: Callable[[AsyncClient], Coroutine[Any, Any, _T]], timeout_s: float | None = None
    ) -> _T:
        """Run ``call`` with the asyncio client on the loop thread and wait for its result."""
        return self.bind(lambda client: client)(call, timeout_s)

    def bind(self, make: Callable[[AsyncClient], _Inner]) -> "Bound[_Inner]":
        """The asyncio object behind a synchronous one, created on the loop thread with the first
        call, and once more in a forked child."""
        return Bound(self, make)

    def on(self, thread: LoopThread) -> AsyncClient:
        """The asyncio client of this process; call it on its loop thread only."""
        if self._closed:
            raise ClientClosed("the client is closed; create a new one")
        if self._made is None or self._made[0] is not thread:
            made = AsyncClient(self.config)
            thread.close_at_exit(made, AsyncClient.close)
            # A client that is not closed leaves no connections behind.
            weakref.finalize(self, thread.close_soon, made).atexit = False
            self._made = thread, made
        return self._made[1]

    def close(self) -> None:
        """Close all connections; the outcome of calls in flight is unknown."""
        if self._closed:
            return
        self._closed = True
        made, self._made = self._made, None
        if made is not None and made[0].here:
            made[0].run(made[1].close())
            made[0].close_soon(made[1])


class Bound(Generic[_Inner]):
    """Runs calls to an asyncio object on the loop thread; see ``Client.bind``."""

    def __init__(self, client: Client, make: Callable[[AsyncClient], _Inner]) -> None:
        self._client, self._make = client, make
        self._made: tuple[LoopThread, _Inner] | None = None  # used on the loop thread only

    def __call__(
        self, call: Callable[[_Inner], Coroutine[Any, Any, _T]], timeout_s: float | None = None
    ) -> _T:
        """The result of ``call``. Raises: what it raises; TimeoutError: it was cancelled."""
        thread = LoopThread.shared()
        return thread.run(self._run(thread, call), timeout_s)

    async def _run(
        self, thread: LoopThread, call: Callable[[_Inner], Coroutine[Any, Any, _T]]
    ) -> _T:
        client = self._client.on(thread)
        if self._made is None or self._made[0] is not thread:
            self._made = thread, self._make(client)
        return await call(self._made[1])


def attach(client: Client | ClientConfig) -> tuple[Client, bool]:
    """The client to use, and whether the caller owns it and must close it."""
    if isinstance(client, Client):
        return client, False
    return Client(client), True

"""The synchronous client: an asyncio one on the process's loop thread, made anew after a fork."""

from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from opentalos.sdk.aio.client import Client as AsyncClient
from opentalos.sdk.config import ClientConfig
from opentalos.sdk.errors import ClientClosed
from opentalos.sdk.loop_thread import LoopThread

_T = TypeVar("_T")


class Client:
    """Connections, clock, addresses and topics that synchronous objects share; any thread may use
    it. In a forked child it makes its own connections."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self._made: tuple[LoopThread, AsyncClient] | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        call: Callable[[AsyncClient], Coroutine[Any, Any, _T]],
        timeout_s: float | None = None,
    ) -> _T:
        """Run ``call`` with the asyncio client on the loop thread and wait for its result."""
        thread = LoopThread.shared()
        return thread.run(self._with_client(thread, call), timeout_s)

    async def _with_client(
        self, thread: LoopThread, call: Callable[[AsyncClient], Coroutine[Any, Any, _T]]
    ) -> _T:
        return await call(self.on(thread))

    def on(self, thread: LoopThread) -> AsyncClient:
        """The asyncio client of this process; to be called on its loop thread only."""
        if self._closed:
            raise ClientClosed("the client is closed")
        if self._made is None or self._made[0] is not thread:
            self._made = thread, AsyncClient(self.config)
            thread.close_at_exit(self._made[1], AsyncClient.close)
        return self._made[1]

    def close(self) -> None:
        """Cut all connections; what is under way ends as unknown."""
        if self._closed:
            return
        self._closed = True
        thread = LoopThread.shared()
        made, self._made = self._made, None
        if made is not None and made[0] is thread:
            thread.run(made[1].close())


def attach(client: Client | ClientConfig) -> tuple[Client, bool]:
    """The client to use, and whether whoever asks owns it and has to close it."""
    if isinstance(client, Client):
        return client, False
    return Client(client), True

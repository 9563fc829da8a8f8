"""PeerCalls: what other servers may ask this one; JSON values in and out."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from opentalos.model.errors import NotSupported

Handler = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


class PeerCalls:
    """Handlers by the name of the call. The caller has proved that it is one of the servers."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def register(self, call: str, handler: Handler) -> None:
        """Answer a call from now on."""
        self._handlers[call] = handler

    async def answer(self, call: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The handler's answer. Raises: NotSupported: no such call; whatever the handler does."""
        handler = self._handlers.get(call)
        if handler is None:
            raise NotSupported(f"no call {call[:40]!r} between servers")
        return await handler(arguments)

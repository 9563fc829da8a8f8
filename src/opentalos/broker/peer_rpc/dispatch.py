"""PeerDispatch: answers the calls of other servers, by the list in ``calls.py``."""

from collections.abc import Awaitable, Callable
from typing import Any

from opentalos.broker.peer_rpc.calls import PROTOCOL_VERSION, PeerCall, Reply, Request
from opentalos.broker.peer_rpc.codec import decode, encode
from opentalos.model.errors import BadRequest, NotSupported
from opentalos.ports.peers import CallRequest

_SHOWN_CHARS_MAX = 40  # of a call's name in an error


class PeerDispatch:
    """One handler for each call. The gateway has proved that the caller is one of the servers."""

    def __init__(self) -> None:
        self._handlers: dict[str, tuple[PeerCall[Any, Any], Callable[[Any], Awaitable[Any]]]] = {}

    def register(
        self, call: PeerCall[Request, Reply], handler: Callable[[Request], Awaitable[Reply]]
    ) -> None:
        """Answer a call from now on. A handler does not raise NotSupported: see ``answer``."""
        self._handlers[call.name] = (call, handler)

    async def answer(self, request: CallRequest) -> bytes:
        """The body of the handler's reply.

        Raises: NotSupported: this version does not know the call, so the caller is a newer server.
            BadRequest: the body is not a request of that call. What the handler raises.
        """
        found = self._handlers.get(request.call)
        if found is None:
            raise NotSupported(
                f"unknown peer call {request.call[:_SHOWN_CHARS_MAX]!r}: this server speaks "
                f"version {PROTOCOL_VERSION} of the peer protocol, the caller {request.version}"
            )
        call, handler = found
        try:
            decoded = decode(request.body, call.request)
        except ValueError as error:
            raise BadRequest(f"invalid request of peer call {call.name}: {error}") from error
        return encode(await handler(decoded))

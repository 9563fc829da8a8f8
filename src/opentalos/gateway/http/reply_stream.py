"""A reply whose body is written in parts, such as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from opentalos.model.errors import OutcomeUnknown


class ReplyStream:
    """The body of one streaming reply; one task writes and closes it.

    The transport's buffer bounds the unsent data: ``write`` waits while it is full, and the server
    disconnects a client that does not read for ``write_stall_s``. The body is chunked unless the
    connection ends with the reply.
    """

    def __init__(self, transport: asyncio.Transport, chunked: bool, end: Callable[[], None]):
        self._transport: asyncio.Transport | None = transport
        self._chunked, self._end = chunked, end
        self._room = asyncio.Event()
        self._room.set()

    def stalled(self, full: bool) -> None:
        """The transport's buffer is full, or has room again."""
        if full:
            self._room.clear()
        else:
            self._room.set()

    def broken(self) -> None:
        """The connection is closed: wake a waiting writer, whose ``write`` raises."""
        self._transport = None
        self._room.set()

    async def write(self, data: bytes) -> None:
        """Send ``data`` once there is room. Raises: OutcomeUnknown: the client disconnected."""
        await self._room.wait()
        transport = self._transport
        if transport is None or transport.is_closing():
            raise OutcomeUnknown("the client disconnected")
        transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def close(self) -> None:
        """End the body; the connection continues with the next request, or closes. Idempotent."""
        transport, self._transport = self._transport, None
        if transport is None:
            return
        if self._chunked and not transport.is_closing():
            transport.write(b"0\r\n\r\n")
        self._end()

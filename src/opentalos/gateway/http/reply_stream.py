"""A reply whose body is written bit by bit, such as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from opentalos.model.errors import OutcomeUnknown


class ReplyStream:
    """The body of one streaming reply; one task writes and closes it.

    What the client has not read yet is bounded by the transport's buffer: ``write`` waits while it
    is full, and the server cuts a client that does not read for ``write_stall_s``. Chunked unless
    the connection ends with the reply.
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
        """The connection is gone: a writer that waits is told."""
        self._transport = None
        self._room.set()

    async def write(self, data: bytes) -> None:
        """Send ``data`` once there is room. Raises: OutcomeUnknown: the client is gone."""
        await self._room.wait()
        transport = self._transport
        if transport is None or transport.is_closing():
            raise OutcomeUnknown("the client is gone")
        transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def close(self) -> None:
        """End the body; the connection takes the next request, or closes. Later calls: nothing."""
        transport, self._transport = self._transport, None
        if transport is None:
            return
        if self._chunked and not transport.is_closing():
            transport.write(b"0\r\n\r\n")
        self._end()

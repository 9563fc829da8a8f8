"""Peers: the other servers of a cluster, reached by their address (HTTP)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class CallRequest(NamedTuple):
    """A call of one server to another: one of ``broker/peer_rpc/calls.py``, encoded."""

    call: str
    body: bytes  # JSON
    version: int  # of the peer protocol that the caller speaks; 0: before it had versions


class Forwarded(NamedTuple):
    """A client's request as it came, for the server that can answer it."""

    method: bytes
    target: bytes  # path and query
    headers: Mapping[bytes, bytes]  # lower-case names
    body: bytes
    peer: str  # the client's address; after a space the principal of its certificate


class Reply(NamedTuple):
    """The other server's reply to a forwarded request, to be passed back unchanged."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes


class Peers(Protocol):
    """Calls between servers; each proves with the cluster's key that it comes from one of them.

    ``refuses``: True only if a connection to the port is refused or reset at once, so that no
    process listens there; a slow, paused or unreachable server does not refuse. ``ask``: the body
    of the reply; an error of the other server is raised as the same leaf. ``forward``: once,
    verbatim; the other server never forwards again. Both raise Unavailable if nothing was sent and
    OutcomeUnknown if no whole reply came, and neither sends a request twice.
    """

    async def refuses(self, address: str) -> bool: ...
    async def ask(self, address: str, request: CallRequest) -> bytes: ...
    async def forward(self, address: str, request: Forwarded) -> Reply: ...
    async def close(self) -> None: ...

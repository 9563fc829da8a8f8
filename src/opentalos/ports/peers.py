"""Peers: the other servers of a cluster, reached by their address (HTTP)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Forwarded(NamedTuple):
    """A client's request as it came, for the server that can answer it."""

    method: bytes
    target: bytes  # path and query
    headers: Mapping[bytes, bytes]  # lower-case names
    body: bytes
    peer: str  # the client's address


class Reply(NamedTuple):
    """The other server's answer, to be passed on as it is."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes


class Peers(Protocol):
    """Calls between servers; each proves with the cluster's key that it comes from one of them.

    ``refuses``: True only if a connection to the port is refused or reset at once, that is, nobody
    listens there; a slow, paused or unreachable server does not refuse. ``ask``: a call of
    ``broker/peer_rpc/peer_calls.py`` with JSON values; an error of the other server is raised as
    the same leaf. ``forward``: once, verbatim; the other server never forwards again. Not done:
    Unavailable; sent but not answered: OutcomeUnknown.
    """

    async def refuses(self, address: str) -> bool: ...
    async def ask(
        self, address: str, call: str, arguments: Mapping[str, Any]
    ) -> Mapping[str, Any]: ...
    async def forward(self, address: str, request: Forwarded) -> Reply: ...
    async def close(self) -> None: ...

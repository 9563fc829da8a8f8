"""HttpPeers: the Peers port over HTTP/1.1.

It sends calls and forwarded requests to other servers and probes their ports. Whatever was written
is never written again (promise I7).
"""

import asyncio
import json
import secrets
import socket
import ssl
import time
from typing import Any

from opentalos.adapters.peer_http.connection import PeerConnection
from opentalos.adapters.peer_http.pool import IDLE_S_MAX, ClientTls, Pool, place_of
from opentalos.model.address import authority
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable, TalosError
from opentalos.model.limits import ClusterLimits
from opentalos.ports.peers import CallRequest, Forwarded, Reply
from opentalos.wire.peer_errors import error_of
from opentalos.wire.peer_proof import (
    CALL,
    CALL_PREFIX,
    CLIENT,
    NONCE_BYTES,
    TRANSFER,
    VERSION,
    PeerKey,
    Subject,
)

__all__ = ["HttpPeers", "PeerConnection", "open_http_peers"]

POOLS_MAX = 1_000  # addresses; a cluster has far fewer servers
_PROBE_S_MAX = 1.0  # for a port to refuse
_OK = 200
_SERVICE_UNAVAILABLE = 503
# Not forwarded: they belong to one connection, or are set again.
_HOP_HEADERS = frozenset(
    (
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"keep-alive",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        TRANSFER,
        CLIENT,
        CALL,
    )
)


def open_http_peers(
    limits: ClusterLimits,
    key: bytes,
    server: str,
    tls: ClientTls = ssl.create_default_context,
) -> "HttpPeers":
    """The other servers, as the server of that name sees them; ``key`` is the cluster's.

    ``tls`` is called for each new connection to a server whose address has TLS.
    """
    return HttpPeers(limits, PeerKey(key), server, tls)


class HttpPeers:
    """One pool of connections per address. No request is ever written twice."""

    def __init__(self, limits: ClusterLimits, key: PeerKey, server: str, tls: ClientTls) -> None:
        self._limits, self._key, self._server, self._tls = limits, key, server, tls
        self._pools: dict[str, Pool] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def refuses(self, address: str) -> bool:
        """Whether no process listens: every address of the name refuses or resets at once."""
        try:
            host, port = place_of(address)
            async with asyncio.timeout(_PROBE_S_MAX):
                loop = asyncio.get_running_loop()
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                for family, _, _, _, place in found:
                    if not await _refused(family, place):
                        return False
        except (OSError, TimeoutError, StoreUnavailable):
            return False
        return bool(found)

    async def ask(self, address: str, request: CallRequest) -> bytes:
        """The body of the other server's reply. Raises: what it raised, or as the port says."""
        target = CALL_PREFIX + request.call.encode()
        proof = self._proof(Subject(CALL, b"POST", target, b"", request.body))
        lines = b"Content-Type: application/json\r\n%b: %b\r\n%b: %d\r\n"
        head = lines % (CALL, proof, VERSION, request.version)
        reply = await self._send(address, b"POST", target, head, request.body)
        if reply.status != _OK:
            raise _error_of(address, request.call, reply)
        return reply.body

    async def forward(self, address: str, request: Forwarded) -> Reply:
        """Forward a client's request, once, and return its reply."""
        client = request.peer.encode()
        subject = Subject(TRANSFER, request.method, request.target, client, request.body)
        lines = [
            b"%b: %b\r\n" % item for item in request.headers.items() if item[0] not in _HOP_HEADERS
        ]
        lines.append(b"%b: %b\r\n%b: %b\r\n" % (TRANSFER, self._proof(subject), CLIENT, client))
        method, target = request.method, request.target
        return await self._send(address, method, target, b"".join(lines), request.body)

    async def close(self) -> None:
        """Cut every connection; requests in flight are unknown."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def _proof(self, subject: Subject) -> bytes:
        time_ms = int(time.time() * 1000)
        return self._key.sign(self._server, time_ms, secrets.token_bytes(NONCE_BYTES), subject)

    async def _send(
        self, address: str, method: bytes, target: bytes, lines: bytes, body: bytes
    ) -> Reply:
        head = b"%b %b HTTP/1.1\r\nHost: %b\r\n%bContent-Length: %d\r\n\r\n"
        request = head % (method, target, authority(address).encode(), lines, len(body))
        written = False
        try:
            async with asyncio.timeout(self._limits.peer_timeout_s):
                async with self._pool(address).connection() as connection:
                    written = True
                    return await connection.request(request, body)
        except TimeoutError as error:
            text = f"server {address} did not answer in {self._limits.peer_timeout_s} s"
            raise (OutcomeUnknown if written else StoreUnavailable)(text) from error

    def _pool(self, address: str) -> Pool:
        if self._closed:
            raise StoreUnavailable("this server is stopping")
        pool = self._pools.get(address)
        if pool is None:
            if len(self._pools) >= POOLS_MAX:
                raise StoreUnavailable(f"more than {POOLS_MAX} servers")
            pool = self._pools[address] = Pool(
                address, self._limits.peer_connections_max, self._tls
            )
            if self._timer is None:
                self._schedule()
        return pool

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(IDLE_S_MAX / 4, self._sweep)

    def _sweep(self) -> None:
        """Close idle connections, forget unused addresses."""
        now_s = asyncio.get_running_loop().time()
        for address, pool in list(self._pools.items()):
            pool.close_idle(now_s)
            if pool.empty:
                del self._pools[address]
        self._schedule()


async def _refused(family: int, place: Any) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(probe, place)
        except (ConnectionRefusedError, ConnectionResetError):
            return True
        except OSError:
            return False
    return False


def _error_of(address: str, call: str, reply: Reply) -> TalosError:
    """The other server's error as the same leaf."""
    try:
        document = json.loads(reply.body)
        if not isinstance(document, dict):
            raise ValueError("not an object")
    except ValueError as error:
        text = f"server {address} answered {reply.status} to {call}"
        starting = reply.status == _SERVICE_UNAVAILABLE  # or stopping
        failure = (StoreUnavailable if starting else OutcomeUnknown)(text)
        failure.__cause__ = error
        return failure
    return error_of(document)

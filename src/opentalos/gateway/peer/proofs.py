"""ProofReader: checks that a request comes from another server of this cluster, once.

A forwarded request also carries the client's own signature, so replaying it gains nothing over
replaying the client's request; a call of a server is accepted once.
"""

import time
from collections import deque

from opentalos.gateway.http.exchange import Exchange
from opentalos.model.errors import ExcessivePending, InvalidCredential
from opentalos.wire.peer_proof import CALL, CLIENT, TRANSFER, PeerKey, Proof, Subject

AGE_MS_MAX = 60_000  # of a proof, either way: the clocks of a cluster agree at least so well
NONCES_MAX = 200_000  # of calls within that age
_ADDRESSES_MAX = 1_000  # of servers of the cluster
_NO_PROOF = "no valid proof of a server of this cluster"


class ProofReader:
    """Checks proofs made with the cluster's key."""

    def __init__(self, key: PeerKey) -> None:
        self._key = key
        self._seen: set[bytes] = set()
        self._order: deque[tuple[int, bytes]] = deque()  # when each nonce came, oldest first
        self.refused = 0
        self._addresses: dict[str, None] = {}  # that sent a valid proof, the oldest first

    def came_from(self, address: str) -> bool:
        """Whether a valid proof came from this address."""
        return address in self._addresses

    def transfer(self, exchange: Exchange) -> None:
        """Note on a forwarded request who sent it and for which client.

        Raises: InvalidCredential.
        """
        client = exchange.headers.get(CLIENT, b"")
        proof = self._check(exchange, TRANSFER, client)
        address, _, named = client.decode("latin-1").partition(" ")
        exchange.forwarder, exchange.client, exchange.named = proof.server, address, named

    def call(self, exchange: Exchange) -> str:
        """The server that calls. Raises: InvalidCredential, also for a proof that was used."""
        proof = self._check(exchange, CALL, b"")
        now_ms = int(time.time() * 1000)
        order = self._order
        # A proof may be dated ahead by its largest age, so its nonce is kept for twice that.
        while order and abs(now_ms - order[0][0]) > 2 * AGE_MS_MAX:
            self._seen.discard(order.popleft()[1])
        if proof.nonce in self._seen:
            self.refused += 1
            raise InvalidCredential("this proof was used before")
        if len(order) >= NONCES_MAX:
            raise ExcessivePending(f"{NONCES_MAX} calls from other servers in {AGE_MS_MAX} ms")
        self._seen.add(proof.nonce)
        order.append((now_ms, proof.nonce))
        return proof.server

    def _check(self, exchange: Exchange, kind: bytes, client: bytes) -> Proof:
        target = exchange.path + (b"?" + exchange.query if exchange.query else b"")
        subject = Subject(kind, exchange.method, target, client, exchange.body)
        proof = self._key.check(exchange.headers.get(kind, b""), subject)
        if proof is None:
            self.refused += 1
            raise InvalidCredential(_NO_PROOF)
        age_ms = int(time.time() * 1000) - proof.time_ms
        if abs(age_ms) > AGE_MS_MAX:
            self.refused += 1
            raise InvalidCredential(
                f"the clock of server {proof.server} differs by {age_ms} ms, or an old proof"
            )
        if exchange.source not in self._addresses:
            if len(self._addresses) >= _ADDRESSES_MAX:
                del self._addresses[next(iter(self._addresses))]
            self._addresses[exchange.source] = None
        return proof

"""ProofReader: addresses of servers, and what a proven forwarded request says of its client."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.peer.proofs import ProofReader
from opentalos.model.errors import InvalidCredential
from opentalos.wire.peer_proof import CALL, CLIENT, TRANSFER, PeerKey, Subject

KEY = PeerKey(b"k" * 32)


def call(proof: bytes, peer: str) -> Exchange:
    connection: Any = SimpleNamespace(alive=True, peer=peer, network=peer)
    return Exchange(connection, b"POST", b"/peer/x", {CALL: proof})


def valid_proof() -> bytes:
    subject = Subject(CALL, b"POST", b"/peer/x", b"", b"")
    return KEY.sign("s1", int(time.time() * 1000), b"n" * 16, subject)


def test_an_address_is_of_a_server_after_a_valid_proof_only() -> None:
    proofs = ProofReader(KEY)
    with pytest.raises(InvalidCredential):
        proofs.call(call(b"no proof", "10.0.0.2"))
    assert not proofs.came_from("10.0.0.2")
    assert proofs.call(call(valid_proof(), "10.0.0.2")) == "s1"
    assert proofs.came_from("10.0.0.2")
    assert not proofs.came_from("10.0.0.3")


def _forwarded(client: bytes, *, proved: bytes | None = None) -> Exchange:
    """``proved``: what the proof was made for, if it differs."""
    connection: Any = None
    subject = Subject(TRANSFER, b"POST", b"/v1/api/topic", proved or client, b"")
    proof = KEY.sign("s1", int(time.time() * 1000), b"n" * 12, subject)
    headers = {TRANSFER: proof, CLIENT: client}
    return Exchange(connection, b"POST", b"/v1/api/topic", headers)


@pytest.mark.parametrize(
    ("client", "address", "named"),
    [
        (b"10.0.0.9", "10.0.0.9", ""),
        (b"10.0.0.9 alice", "10.0.0.9", "alice"),
        (b" alice", "", "alice"),
    ],
)
def test_address_and_principal_of_the_client_come_with_the_proof(
    client: bytes, address: str, named: str
) -> None:
    exchange = _forwarded(client)
    ProofReader(KEY).transfer(exchange)
    assert (exchange.forwarder, exchange.client, exchange.named) == ("s1", address, named)


def test_a_principal_that_the_proof_does_not_cover_is_refused() -> None:
    exchange = _forwarded(b"10.0.0.9 root", proved=b"10.0.0.9")
    with pytest.raises(InvalidCredential, match="no valid proof"):
        ProofReader(KEY).transfer(exchange)
    assert (exchange.forwarder, exchange.named) == ("", "")

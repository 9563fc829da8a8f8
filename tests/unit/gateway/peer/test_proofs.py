"""ProofReader: which addresses servers of the cluster have."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.peer.proofs import ProofReader
from opentalos.model.errors import InvalidCredential
from opentalos.wire.peer_proof import CALL, PeerKey, Subject

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

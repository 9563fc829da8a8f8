"""Who a head says that it is from."""

import base64
from typing import Any

import pytest
from tests.unit.matrix import matrix

from opentalos.gateway.http.fairness.body_budget import Claim
from opentalos.gateway.session.claimed_callers import PEERS, ClaimedCallers, claimed_key
from opentalos.wire.peer_proof import CALL, TRANSFER

PAIR = base64.b64encode(b"KA:secret")


@matrix(
    ("authorization", "key_id"),
    [
        (b"Galaxy-V3 KA:c2ln", "KA"),
        (b"Galaxy-V2 KA:c2ln", "KA"),
        (b"Basic " + PAIR, "KA"),
        (b"bearer " + PAIR.rstrip(b"="), "KA"),
        (b'{"1":{"str":"SDS-V1"},"2":{"i32":10},"3":{"str":"KA"}}', "KA"),
        (b"", ""), (b"Basic", ""), (b"Basic !", ""), (b"Basic \xff\xfe", ""), (b"{", ""),
        (b"Galaxy-V3 KA", ""), (b"Galaxy-V3 \xff:x", ""), (b"Unknown KA:x", ""),
    ],
)  # fmt: skip
def test_the_key_id_is_found_in_every_form_of_the_header(authorization: bytes, key_id: str) -> None:
    assert claimed_key(authorization) == key_id


class Keys:
    """An authenticator that knows one key, proven by one address."""

    def claimed(self, key_id: str, peer: str) -> tuple[str, bool]:
        return ("alice", peer == "10.0.0.1") if key_id == "KA" else ("", False)


class Proofs:
    """A proof reader that knows one address."""

    def came_from(self, address: str) -> bool:
        return address == "10.0.0.9"


def test_a_caller_is_known_by_its_key_and_address() -> None:
    stand_in: Any = Keys()
    identify = ClaimedCallers(stand_in).identify
    known, unknown = {b"authorization": b"Basic " + PAIR}, {b"authorization": b"Galaxy-V3 KX:x"}
    assert identify(known, "10.0.0.1") == Claim("alice", True)
    assert identify(known, "10.0.0.2") == Claim("alice", False)
    assert identify(unknown, "10.0.0.1") == Claim()
    assert identify({}, "10.0.0.1") == Claim()


@pytest.mark.parametrize("header", [CALL, TRANSFER])
def test_a_server_of_the_cluster_is_known_by_its_address_only(header: bytes) -> None:
    keys: Any = Keys()
    proofs: Any = Proofs()
    identify = ClaimedCallers(keys, proofs).identify
    headers = {header: b"whatever", b"authorization": b"Basic " + PAIR}
    assert identify(headers, "10.0.0.9") == Claim(PEERS, True)
    assert identify(headers, "10.0.0.1") == Claim()
    assert ClaimedCallers(keys).identify(headers, "10.0.0.1") == Claim("alice", True), "no cluster"

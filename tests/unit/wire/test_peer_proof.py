"""Proofs between servers: right ones are read, anything changed is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentalos.wire.peer_proof import CALL, TRANSFER, PeerKey, Proof, Subject

KEY = PeerKey(b"k" * 32)
SUBJECT = Subject(TRANSFER, b"POST", b"/v1/api/message?id=1", b"10.0.0.9", b"body")
NONCE = b"0123456789ab"


def test_a_proof_names_server_time_and_nonce() -> None:
    value = KEY.sign("s-1", 1_700_000_000_000, NONCE, SUBJECT)
    assert KEY.check(value, SUBJECT) == Proof("s-1", 1_700_000_000_000, NONCE.hex().encode())


@pytest.mark.parametrize(
    "changed",
    [
        SUBJECT._replace(kind=CALL),
        SUBJECT._replace(method=b"PUT"),
        SUBJECT._replace(target=b"/v1/api/message"),
        SUBJECT._replace(client=b"10.0.0.8"),
        SUBJECT._replace(body=b"bodY"),
        SUBJECT._replace(method=b"POST/", target=SUBJECT.target[1:]),
    ],
)
def test_a_proof_is_about_one_request(changed: Subject) -> None:
    assert KEY.check(KEY.sign("s1", 5, NONCE, SUBJECT), changed) is None


def test_another_clusters_key_proves_nothing() -> None:
    assert KEY.check(PeerKey(b"x" * 32).sign("s1", 5, NONCE, SUBJECT), SUBJECT) is None


@given(st.data())
def test_a_changed_or_made_up_proof_is_none(data: st.DataObject) -> None:
    value = KEY.sign("s1", 5, NONCE, SUBJECT)
    position = data.draw(st.integers(0, len(value) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda item: item != value[position]))
    changed = value[:position] + bytes([byte]) + value[position + 1 :]
    assert KEY.check(changed, SUBJECT) is None
    assert KEY.check(data.draw(st.binary(max_size=600)), SUBJECT) is None

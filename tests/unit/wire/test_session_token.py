"""Tokens of sessions open with the key that signed them, and every other text is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentalos.model.errors import InvalidCredential
from opentalos.wire.session_token import SessionKey, SessionToken

KEY = SessionKey(b"k" * 32)
TOKEN = SessionToken("id", "key", "alice", "AK1", KEY.binding(b"secret"), 1, 2, 3)


def test_a_token_comes_back_as_it_was_signed() -> None:
    assert KEY.read(KEY.sign(TOKEN)) == TOKEN


def test_a_token_of_another_key_is_refused() -> None:
    with pytest.raises(InvalidCredential):
        SessionKey(b"j" * 32).read(KEY.sign(TOKEN))


def test_every_changed_character_is_noticed() -> None:
    text = KEY.sign(TOKEN)
    for position, character in enumerate(text):
        changed = text[:position] + ("A" if character != "A" else "B") + text[position + 1 :]
        with pytest.raises(InvalidCredential):
            KEY.read(changed)


@given(st.text() | st.from_regex(r"v1\.[A-Za-z0-9_=-]*\.[A-Za-z0-9_=-]*"))
def test_any_text_is_refused_with_the_same_error(text: str) -> None:
    with pytest.raises(InvalidCredential):
        KEY.read(text)


def test_proofs_and_bindings_differ_by_key_session_and_secret() -> None:
    other = SessionKey(b"j" * 32)
    proofs = {key.forgery_proof(name) for key in (KEY, other) for name in ("a", "b")}
    bindings = {key.binding(secret) for key in (KEY, other) for secret in (b"a", b"b")}
    assert len(proofs | bindings) == 8

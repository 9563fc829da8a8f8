"""A data key opens what it encrypted, only that, and never uses a nonce twice."""

import pytest

from opentalos.adapters import data_key
from opentalos.adapters.data_key import PREFIX_BYTES, AesGcmDataKey
from opentalos.model.errors import CorruptLog
from opentalos.ports.key_ring import NONCE_BYTES, TAG_BYTES

KEY = bytes(range(32))


class Draws:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, bytes_count: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(bytes_count, "big")


def test_content_is_decrypted_with_what_it_is_bound_to() -> None:
    key = AesGcmDataKey(b"12345678", KEY, Draws())
    nonce, ciphertext = key.encrypt(memoryview(b"content"), b"place")
    assert (len(nonce), len(ciphertext)) == (NONCE_BYTES, len(b"content") + TAG_BYTES)
    assert key.decrypt(nonce, memoryview(ciphertext), b"place") == b"content"
    for other in (
        (nonce, ciphertext, b"elsewhere"),
        (nonce, ciphertext[:-1] + b"\0", b"place"),
        (bytes(NONCE_BYTES), ciphertext, b"place"),
    ):
        with pytest.raises(CorruptLog, match="data key 3132333435363738"):
            key.decrypt(*other)
    with pytest.raises(CorruptLog):
        AesGcmDataKey(b"12345678", bytes(32), Draws()).decrypt(nonce, ciphertext, b"place")


def test_no_two_nonces_are_equal_also_after_the_counter_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(data_key, "_COUNTS", 4)
    draws = Draws()
    one, other = (AesGcmDataKey(b"12345678", KEY, draws) for _ in range(2))
    assert draws.count == 0  # a key that only decrypts draws nothing
    nonces = [key.encrypt(b"", b"")[0] for _ in range(9) for key in (one, other)]
    assert len(set(nonces)) == len(nonces)
    assert len({nonce[:PREFIX_BYTES] for nonce in nonces}) == draws.count == 6

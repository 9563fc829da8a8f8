"""Secrets at rest open only under their key and name."""

import pytest

from opentalos.adapters.secret_box import AesGcmSecretBox
from opentalos.model.errors import ConfigError, NewerFormat

BOX = AesGcmSecretBox(bytes(range(32)))


@pytest.mark.parametrize("secret", [b"", b"s", b"x" * 1000])
def test_a_secret_opens_again(secret: bytes) -> None:
    assert BOX.open(BOX.seal(secret, "AK1"), "AK1") == secret


def test_equal_secrets_are_stored_differently() -> None:
    assert BOX.seal(b"secret", "AK1") != BOX.seal(b"secret", "AK1")


def test_a_secret_opens_under_no_other_name_or_key() -> None:
    sealed = BOX.seal(b"secret", "AK1")
    with pytest.raises(ConfigError):
        BOX.open(sealed, "AK2")
    with pytest.raises(ConfigError):
        AesGcmSecretBox(bytes(32)).open(sealed, "AK1")


def test_damage_is_noticed_wherever_it_is() -> None:
    sealed = BOX.seal(b"secret", "AK1")
    for position in range(1, len(sealed)):
        damaged = bytearray(sealed)
        damaged[position] ^= 1
        with pytest.raises(ConfigError):
            BOX.open(bytes(damaged), "AK1")
        with pytest.raises(ConfigError):
            BOX.open(sealed[:position], "AK1")
    with pytest.raises(ConfigError):
        BOX.open(b"", "AK1")


def test_a_newer_envelope_is_refused() -> None:
    sealed = BOX.seal(b"secret", "AK1")
    with pytest.raises(NewerFormat):
        BOX.open(b"\2" + sealed[1:], "AK1")


def test_a_key_of_another_size_is_refused() -> None:
    with pytest.raises(ConfigError):
        AesGcmSecretBox(bytes(16))

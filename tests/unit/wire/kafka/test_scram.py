"""SCRAM against the examples of the RFCs, and what it refuses."""

import base64

import pytest

from opentalos.wire.kafka import scram

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)


def test_the_example_of_rfc_7677() -> None:
    first, final = scram.read_first(FIRST), scram.read_final(FINAL)
    assert first.name == "user"
    answer = scram.server_first(NONCE, SALT)
    assert answer == (
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    scram.check_final(first, final, NONCE)
    keys = scram.derive("sha256", b"pencil", SALT)
    exchange = f"{first.bare},{answer},{final.unproven}"
    assert scram.is_proven("sha256", keys, final.proof, exchange)
    assert scram.server_final("sha256", keys, exchange) == (
        "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )
    assert not scram.is_proven("sha256", keys, final.proof[:-1] + b"\0", exchange)
    assert not scram.is_proven("sha256", keys, final.proof[:-1], exchange)
    other = scram.derive("sha256", b"pencils", SALT)
    assert not scram.is_proven("sha256", other, final.proof, exchange)


def test_names_are_unescaped() -> None:
    first = scram.read_first(b"n,a=a=2Cb,n=a=2Cb,r=x,tokenauth=true")
    assert (first.name, first.authorize_as) == ("a,b", "a,b")
    assert first.bare == "n=a=2Cb,r=x,tokenauth=true"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,n=,r=x",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"p=tls-unique,,n=user,r=x",
        b"n,,m=ext,n=user,r=x",
        b"n,,n=a=b,r=x",
        b"n,,n=\xff,r=x",
        b"n,,n=user,r=" + b"x" * 257,
    ],
)
def test_a_first_message_that_is_none(message: bytes) -> None:
    with pytest.raises(scram.ScramError):
        scram.read_first(message)


@pytest.mark.parametrize(
    "message",
    [b"", b"c=biws,r=x", b"c=biws,p=AAAA", b"c=b!,r=x,p=AAAA", b"c=biws,r=x,p=A", b"\xff"],
)
def test_a_second_message_that_is_none(message: bytes) -> None:
    with pytest.raises(scram.ScramError):
        scram.read_final(message)


def test_a_second_message_of_another_exchange() -> None:
    first, final = scram.read_first(FIRST), scram.read_final(FINAL)
    with pytest.raises(scram.ScramError, match="nonce"):
        scram.check_final(first, final, NONCE + "x")
    with pytest.raises(scram.ScramError, match="header"):
        scram.check_final(first, final._replace(header=b"y,,"), NONCE)

"""The Authorization header of older SDS clients: read, checked, and what it covers."""

import hashlib
import hmac

import pytest

from opentalos.model.errors import InvalidCredential
from opentalos.wire._generated.sds import HttpAuthorizationHeader, MacAlgorithm
from opentalos.wire.sds.signing import matches, parse_header, signed_text

SECRET = b"some secret"
NAMES = ("Host", "X-Xiaomi-Timestamp", "X-Xiaomi-Content-MD5")
HEADERS = {
    b"host": b"10.0.0.1,10.0.0.1:8080",
    b"x-xiaomi-timestamp": b"1700000000",
    b"x-xiaomi-content-md5": b"0123",
}
TEXT = b"10.0.0.1\n1700000000\n0123"
DIGESTS = {1: hashlib.md5, 2: hashlib.sha1, 3: hashlib.sha256}


def header(algorithm: int = 2, names: tuple[str, ...] = NAMES, version: str = "SDS-V1") -> bytes:
    signature = hmac.new(SECRET, TEXT, DIGESTS.get(algorithm, hashlib.sha1)).hexdigest()
    listed = "".join(f',"{name}"' for name in names)
    return (
        f'{{"1":{{"str":"{version}"}},"2":{{"i32":10}},"3":{{"str":"KEY"}},'
        f'"5":{{"str":"{signature}"}},"6":{{"i32":{algorithm}}},'
        f'"7":{{"lst":["str",{len(names)}{listed}]}},"8":{{"tf":0}}}}'
    ).encode()


@pytest.mark.parametrize("algorithm", DIGESTS)
def test_a_signature_by_each_algorithm_is_known(algorithm: int) -> None:
    parsed = parse_header(header(algorithm))
    assert parsed.secretKeyId == "KEY"
    assert signed_text(parsed, HEADERS) == TEXT
    assert matches(parsed, TEXT, SECRET)
    assert not matches(parsed, TEXT, SECRET + b"!")
    assert not matches(parsed, TEXT + b"!", SECRET)


@pytest.mark.parametrize(
    ("sent", "signed"),
    [
        (b"a.example", b"a.example"),
        (b"a.example:80", b"a.example"),
        (b"a.example:80,b.example, c.example:99", b"c.example"),
        (b"::1", b"::1"),
        (b"[::1]:80", b"::1"),
    ],
)
def test_the_last_host_is_signed_without_its_port(sent: bytes, signed: bytes) -> None:
    text = signed_text(parse_header(header()), {**HEADERS, b"host": sent})
    assert text.split(b"\n")[0] == signed


def test_values_come_in_the_order_of_the_list() -> None:
    text = signed_text(parse_header(header(names=NAMES[::-1])), HEADERS)
    assert text.split(b"\n") == TEXT.split(b"\n")[::-1]


@pytest.mark.parametrize("left_out", NAMES)
def test_what_must_be_signed_cannot_be_left_out(left_out: str) -> None:
    parsed = parse_header(header(names=tuple(name for name in NAMES if name != left_out)))
    with pytest.raises(InvalidCredential, match=f"must be: {left_out.lower()}"):
        signed_text(parsed, HEADERS)


def test_a_listed_header_must_be_there() -> None:
    with pytest.raises(InvalidCredential, match="not sent: x-other"):
        signed_text(parse_header(header(names=(*NAMES, "X-Other"))), HEADERS)


def test_a_signature_has_one_form() -> None:
    """Another one would be a copy that the memory of seen signatures does not know."""
    texts = (b"%d" % number for number in range(1000))
    signed = ((text, hmac.new(SECRET, text, hashlib.sha1).hexdigest()) for text in texts)
    text, signature = next(pair for pair in signed if pair[1].startswith("0"))
    for form, right in ((signature, True), (signature[1:], False), (signature.upper(), False)):
        sent = HttpAuthorizationHeader(algorithm=MacAlgorithm.HmacSHA1, signature=form)
        assert matches(sent, text, SECRET) is right


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(InvalidCredential, match="no known algorithm"):
        matches(parse_header(header(9)), TEXT, SECRET)


@pytest.mark.parametrize(
    "value",
    [
        b"{",
        b"{}x",
        b'{"1":{"str":"SDS-V1"}',
        b'{"1":{"i32":1}}',
        header(version="SDS-V9"),
        header() + b"," + header(),
        header(names=NAMES * 100),
    ],
)
def test_an_invalid_header_is_refused(value: bytes) -> None:
    with pytest.raises(InvalidCredential, match="Authorization header"):
        parse_header(value)

"""Signing: the worked example of docs/protocol/signatures.md, header forms and HMAC states."""

import base64
import hashlib
import hmac
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.matrix import matrix

from opentalos.model.errors import InvalidCredential
from opentalos.wire.signing import (
    Authorization,
    HmacState,
    Scheme,
    is_digest,
    md5_of,
    parse_authorization,
    string_to_sign,
)

# Source: docs/protocol/signatures.md#worked-example.
BODY = bytes.fromhex("8221010b637265617465546f7069631c1808434c312f64656d6f1c1504000000")
HEADERS = {
    b"host": b"localhost:1234,localhost",
    b"content-type": b"application/x-thrift-compact",
    b"x-xiaomi-timestamp": b"1700000000",
    b"x-xiaomi-date": b"Tue, 14 Nov 2023 22:13:20 GMT",
    b"x-xiaomi-content-md5": b"b58b38df510eb4189b64e8fcd61b360d",
    b"date": b"ignored, since x-xiaomi-date is present",
}
TEXT = (
    b"POST\n\napplication/x-thrift-compact\n\n"
    b"x-xiaomi-content-md5:b58b38df510eb4189b64e8fcd61b360d\n"
    b"x-xiaomi-date:Tue, 14 Nov 2023 22:13:20 GMT\n"
    b"x-xiaomi-timestamp:1700000000\n"
    b"/v1/api/topic"
)


def test_the_worked_example_signs_as_documented() -> None:
    assert (
        hashlib.md5(BODY, usedforsecurity=False).hexdigest() == "b58b38df510eb4189b64e8fcd61b360d"
    )
    text = string_to_sign(b"POST", b"/v1/api/topic", b"id=01234567&type=createTopic", HEADERS)
    assert text == TEXT
    header = parse_authorization(b"Galaxy-V3 AKEXAMPLE:MljX/kOkg03nisqQ4nzFwq4FovE=")
    assert header == Authorization(Scheme.GALAXY_V3, "AKEXAMPLE", b"MljX/kOkg03nisqQ4nzFwq4FovE=")
    assert header.signed
    assert HmacState(b"example-secret").matches(text, header.signature)
    assert not HmacState(b"example-secret").matches(text + b" ", header.signature)
    assert not HmacState(b"other-secret").matches(text, header.signature)


@given(st.binary(max_size=200), st.binary(max_size=300))
def test_hmac_states_agree_with_the_standard_library(secret: bytes, text: bytes) -> None:
    expected = base64.b64encode(hmac.digest(secret, text, "sha1"))
    state = HmacState(secret)
    assert state.signature(text) == expected
    assert state.signature(text) == expected  # a state is not used up


def test_sub_resources_are_signed_sorted_and_expires_takes_the_date_line() -> None:
    text = string_to_sign(b"GET", b"/b", b"x=1&uploadId=7&acl&Expires=99&partNumber=", {})
    assert text == b"GET\n\n\n99\n/b?acl&partNumber&uploadId=7"


def test_date_counts_only_without_x_xiaomi_date() -> None:
    headers = {b"date": b"today", b"content-md5": b"m", b"x-xiaomi-a": b"1,2"}
    assert string_to_sign(b"POST", b"/p", b"", headers) == b"POST\nm\n\ntoday\nx-xiaomi-a:1,2\n/p"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"Galaxy-V2 k:s=", Authorization(Scheme.GALAXY_V2, "k", b"s=")),
        (b"OAuth app:s", Authorization(Scheme.OAUTH, "app", b"s")),
        (b"Galaxy-V3 a:b:s", Authorization(Scheme.GALAXY_V3, "a:b", b"s")),
        (b"Guest g", Authorization(Scheme.GUEST, "g")),
        (b"SSO galaxytalos:x:k", Authorization(Scheme.SSO, "k", secret="x", sid="galaxytalos")),
    ],
)
def test_every_scheme_is_parsed(value: bytes, expected: Authorization) -> None:
    assert parse_authorization(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"Basic abc", b"Guest", b"Guest \xff", b"galaxy-v3 k:s", b"SSO a:b"),
        *(b"Galaxy-V3", b"Galaxy-V3 k", b"Galaxy-V3 k:", b"Galaxy-V3 :s"),
    ],
)
def test_malformed_headers_are_refused(value: bytes) -> None:
    with pytest.raises(InvalidCredential):
        parse_authorization(value)


@given(st.binary(max_size=60))
def test_any_authorization_is_parsed_or_refused(value: bytes) -> None:
    for scheme in (b"", b"SSO ", b"Galaxy-V3 "):
        try:
            parsed = parse_authorization(scheme + value)
        except InvalidCredential:
            continue
        assert parsed.key_id


# The number n whose ``body n`` has a digest with so many leading zeros.
BODIES = {0: 0, 1: 6, 2: 303, 3: 1664, 4: 25551, 5: 944004}


@pytest.mark.parametrize("zeros", BODIES)
def test_a_digest_may_lack_any_of_its_leading_zeros(zeros: int) -> None:
    body = b"body %d" % BODIES[zeros]
    digest = hashlib.md5(body).hexdigest()
    assert len(digest.lstrip("0")) == 32 - zeros
    for dropped in range(zeros + 1):
        assert is_digest(digest[dropped:].encode(), md5_of(body))
        assert is_digest(digest[dropped:].upper().encode(), md5_of(body))
    assert not is_digest(digest[zeros + 1 :].encode(), md5_of(body))
    assert not is_digest(digest[:-1].encode(), md5_of(body))


@given(st.binary(max_size=64))
def test_every_body_matches_its_digest_written_as_a_number(body: bytes) -> None:
    number = int(hashlib.md5(body).hexdigest(), 16)
    assert is_digest(b"%x" % number, md5_of(body))
    assert not is_digest(b"%x" % (number ^ 1), md5_of(body))


# What readers of numbers take: int() allows blanks, signs, prefixes and underscores.
FORMS = ["", "0", "+{}", "-{}", " {}", "{} ", "\t{}", "0x{}", "{}\0", "{}g", "_{}", "{},{}"]


@matrix(("zeros", "form"), product(BODIES, FORMS))
def test_what_is_no_digest_is_refused(zeros: int, form: str) -> None:
    body = b"body %d" % BODIES[zeros]
    digest = hashlib.md5(body).hexdigest()
    for written in (digest, digest[zeros:]):
        assert not is_digest(form.format(written, written).encode(), md5_of(body))


@pytest.mark.parametrize("zeros", BODIES)
def test_more_than_32_digits_are_refused(zeros: int) -> None:
    body = b"body %d" % BODIES[zeros]
    assert not is_digest(b"0" + hashlib.md5(body).hexdigest().encode(), md5_of(body))


def test_separators_and_digits_of_other_scripts_are_refused() -> None:
    body = b"body %d" % BODIES[4]
    short = hashlib.md5(body).hexdigest()[4:]
    assert is_digest(short.encode(), md5_of(body))
    assert not is_digest(f"{short[0]}_{short[1:]}".encode(), md5_of(body))
    arabic = str.maketrans("0123456789", "".join(chr(0x660 + n) for n in range(10)))
    full_width = str.maketrans("0123456789", "".join(chr(0xFF10 + n) for n in range(10)))
    for table in (arabic, full_width):
        strange = short.translate(table)
        assert int(strange, 16) == int(short, 16)
        assert not is_digest(strange.encode(), md5_of(body))
    assert not is_digest(short.encode().replace(short[:1].encode(), b"\xb2"), md5_of(body))

"""Signing: the worked example of docs/protocol/signatures.md, header forms and HMAC states."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentalos.model.errors import InvalidCredential
from opentalos.wire.signing import (
    Authorization,
    HmacState,
    Scheme,
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

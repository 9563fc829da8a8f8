"""Requests whose signature covers their body by a MAC in place of an MD5."""

import base64
import hashlib
import hmac
import time
from typing import Any

import pytest
from tests.unit.gateway.thrift_http.test_authentication import (
    ALICE,
    BODY,
    Keys,
    authenticator,
    signed,
)

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.thrift_http.authentication import DIGEST_BYTES_MAX
from opentalos.model.errors import InvalidCredential
from opentalos.wire.content_mac import content_mac


@pytest.fixture
def keys() -> Keys:
    return Keys()


def by_mac(secret: str = "sa", *, body: bytes, request_id: str = "9" * 32) -> Exchange:
    """A request as the SDK signs a large one."""
    tag = content_mac(secret.encode(), request_id.encode(), body).decode()
    stamp = str(int(time.time()))
    lines = (
        f"x-xiaomi-content-poly1305:{tag}",
        f"x-xiaomi-request-id:{request_id}",
        f"x-xiaomi-timestamp:{stamp}",
    )
    text = "\n".join(("POST", "", "x", "", *lines, "/v1/api/message"))
    signature = base64.b64encode(hmac.new(secret.encode(), text.encode(), hashlib.sha1).digest())
    connection: Any = None
    exchange = Exchange(connection, b"POST", b"/v1/api/message?type=putMessage", {})
    exchange.body = body
    exchange.headers = {
        name.encode(): value.encode() for name, _, value in (line.partition(":") for line in lines)
    }
    exchange.headers |= {b"content-type": b"x", b"authorization": b"Galaxy-V3 KA:" + signature}
    return exchange


def test_a_signed_mac_covers_the_body_of_any_size_at_once(keys: Keys) -> None:
    body = b"x" * (DIGEST_BYTES_MAX + 1)
    assert authenticator(keys).caller(by_mac(body=body)) is ALICE


def test_another_body_or_id_than_the_mac_covers_is_refused(keys: Keys) -> None:
    changed = by_mac(body=b"a body")
    changed.body = b"A body"
    with pytest.raises(InvalidCredential, match="Poly1305 does not match"):
        authenticator(keys).caller(changed)
    with pytest.raises(InvalidCredential, match="Poly1305 does not match"):
        authenticator(keys).caller(by_mac(body=b"a body", request_id="short"))


def test_a_mac_that_the_signature_does_not_cover_is_refused(keys: Keys) -> None:
    exchange = signed()
    tag = content_mac(b"sa", b"9" * 32, BODY)
    exchange.headers |= {b"x-xiaomi-content-poly1305": tag, b"x-xiaomi-request-id": b"9" * 32}
    with pytest.raises(InvalidCredential, match="wrong signature"):
        authenticator(keys).caller(exchange)


def test_a_request_with_a_mac_is_accepted_once(keys: Keys) -> None:
    checker = authenticator(keys)
    checker.caller(by_mac(body=BODY))
    with pytest.raises(InvalidCredential, match="received before"):
        checker.caller(by_mac(body=BODY))

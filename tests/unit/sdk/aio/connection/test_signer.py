"""Headers as a server checks them."""

import hashlib

from opentalos.sdk.aio.connection.signer import Signer
from opentalos.wire.signing import HmacState, parse_authorization, string_to_sign

BODY = b"\x82\x21\x01"


def signer(wall_s: float = 1_700_000_000.0) -> Signer:
    return Signer("AK", "secret", lambda: wall_s)


def test_a_server_accepts_the_signature() -> None:
    headers = signer().headers("/v1/api/message", BODY)
    received = {name.lower().encode(): value.encode() for name, value in headers.items()}
    sent = parse_authorization(received.pop(b"authorization"))
    text = string_to_sign(b"POST", b"/v1/api/message", b"type=putMessage", received)
    assert sent.key_id == "AK"
    assert HmacState(b"secret").matches(text, sent.signature)
    assert headers["x-xiaomi-content-md5"] == hashlib.md5(BODY).hexdigest()
    assert headers["x-xiaomi-timestamp"] == "1700000000"
    assert headers["x-xiaomi-date"] == "Tue, 14 Nov 2023 22:13:20 GMT"


def test_the_request_id_is_signed() -> None:
    headers = signer().headers("/v1/api/message", BODY)
    received = {name.lower().encode(): value.encode() for name, value in headers.items()}
    sent = parse_authorization(received.pop(b"authorization"))
    received[b"x-xiaomi-request-id"] = b"another"
    text = string_to_sign(b"POST", b"/v1/api/message", b"", received)
    assert not HmacState(b"secret").matches(text, sent.signature)


def test_a_clock_in_the_far_future_still_makes_headers() -> None:
    clock = signer()
    assert clock.correct(str((1 << 37) - 1))
    assert clock.headers("/v1/api/topic", b"")["x-xiaomi-timestamp"] == str((1 << 37) - 1)


def test_an_invalid_time_changes_nothing() -> None:
    clock = signer()
    for timestamp in (None, "", "now", "1e9", "-1", "١٢٣", str(1 << 38)):
        assert not clock.correct(timestamp)
    assert clock.offset_s == 0

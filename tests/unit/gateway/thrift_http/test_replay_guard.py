"""A copy of a signed request is refused, as far as the request carries an id."""

import hashlib
import time
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.gateway.thrift_http.test_authentication import ALICE, BODY, Keys, signed

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.gateway.thrift_http.replay_guard import SeenRequests
from opentalos.model.errors import ExcessivePending, InvalidCredential
from opentalos.model.settings.security import AuthLimits
from opentalos.sdk.aio.connection.signer import Signer
from opentalos.sdk.errors import OutcomeUnknown, error_of_status

PATH = "/v1/api/message"


def exchange(headers: dict[str, str], body: bytes = BODY, *, private: bool = False) -> Exchange:
    connection: Any = SimpleNamespace(private=private, peer="10.0.0.7")  # never answered
    made = Exchange(connection, b"POST", PATH.encode(), {})
    made.headers = {name.lower().encode(): value.encode() for name, value in headers.items()}
    made.body = body
    return made


@pytest.fixture
def server() -> Authenticator:
    keys: Any = Keys()  # a stand-in
    return Authenticator(keys, AuthLimits())


def test_each_request_of_our_sdk_is_taken_once(server: Authenticator) -> None:
    signer = Signer("KA", "sa")
    sent = [signer.headers(PATH, BODY) for _ in range(2)]
    for headers in sent:
        assert server.caller(exchange(headers)) is ALICE
    for headers in sent:
        with pytest.raises(InvalidCredential, match="received before") as refusal:
            server.caller(exchange(headers))
        # The sender of the first one must not take this for "not done".
        assert type(error_of_status(401, str(refusal.value), "call")) is OutcomeUnknown


def test_an_id_that_is_not_signed_is_worth_nothing(server: Authenticator) -> None:
    headers = Signer("KA", "sa").headers(PATH, BODY)
    for changed in ({"x-xiaomi-request-id": "another"}, {"x-xiaomi-request-id": ""}):
        with pytest.raises(InvalidCredential, match="wrong signature"):
            server.caller(exchange(headers | changed))
    del headers["x-xiaomi-request-id"]
    with pytest.raises(InvalidCredential, match="wrong signature"):
        server.caller(exchange(headers))


def test_a_request_that_is_refused_does_not_use_its_id_up(server: Authenticator) -> None:
    headers = Signer("KA", "sa", lambda: time.time() - 10_000).headers(PATH, BODY)
    for _ in range(2):
        with pytest.raises(Exception, match="differs by"):
            server.caller(exchange(headers))
    headers = Signer("KA", "sa").headers(PATH, BODY)
    assert headers["x-xiaomi-content-md5"] == hashlib.md5(BODY).hexdigest()
    with pytest.raises(InvalidCredential, match="MD5"):
        server.caller(exchange(headers, b"other"))
    assert server.caller(exchange(headers)) is ALICE


def test_a_principal_may_have_every_signature_taken_once_only() -> None:
    keys: Any = Keys()  # a stand-in
    server = Authenticator(keys, AuthLimits())
    sent = signed()
    for _ in range(2):
        assert server.caller(sent) is ALICE
    keys.keys["KA"] = keys.keys["KA"]._replace(refuse_replays=True)
    assert server.caller(sent) is ALICE
    with pytest.raises(InvalidCredential, match="received before"):
        server.caller(sent)
    headers = Signer("KA", "sa").headers(PATH, BODY)
    assert server.caller(exchange(headers)) is ALICE
    with pytest.raises(InvalidCredential, match="received before"):
        server.caller(exchange(headers))


def test_a_signed_attached_info_can_be_neither_changed_nor_removed() -> None:
    keys: Any = Keys()  # a stand-in
    for demanded in (False, True):
        server = Authenticator(keys, AuthLimits(attached_info_signed=demanded))
        signer = Signer("KR", "sr", acting_for="alice")
        assert server.caller(exchange(signer.headers(PATH, BODY))) is ALICE
        headers = signer.headers(PATH, BODY)
        with pytest.raises(InvalidCredential, match="differs from its signed copy"):
            server.caller(exchange(headers | {"Attached-Info": "root"}))
        headers = signer.headers(PATH, BODY)
        del headers["Attached-Info"]
        with pytest.raises(InvalidCredential, match="differs from its signed copy"):
            server.caller(exchange(headers))


def with_unsigned_info(*, private: bool) -> Exchange:
    """A request as official clients of an administrator who acts for alice send it."""
    headers = Signer("KR", "sr").headers(PATH, BODY) | {"Attached-Info": "alice"}
    return exchange(headers, private=private)


def test_attached_info_that_is_not_signed_is_accepted_only_where_nobody_can_change_it() -> None:
    keys: Any = Keys()  # a stand-in
    server = Authenticator(keys, AuthLimits())
    assert server.caller(with_unsigned_info(private=True)) is ALICE
    with pytest.raises(InvalidCredential, match="without TLS from another machine"):
        server.caller(with_unsigned_info(private=False))
    forwarded = with_unsigned_info(private=False)
    forwarded.forwarder = "s2"  # which has checked that
    assert server.caller(forwarded) is ALICE
    server = Authenticator(keys, AuthLimits(secrets_over_http=True))
    assert server.caller(with_unsigned_info(private=False)) is ALICE


def test_the_operator_may_demand_that_attached_info_is_signed() -> None:
    keys: Any = Keys()  # a stand-in
    server = Authenticator(keys, AuthLimits(attached_info_signed=True))
    with pytest.raises(InvalidCredential, match="send the same value"):
        server.caller(with_unsigned_info(private=True))


def test_who_is_strict_refuses_what_it_cannot_keep() -> None:
    seen = SeenRequests(window_s=10.0, ids_max=2, strict=True)
    assert [seen.first("K", b"%d" % number, 0.0) for number in range(2)] == [True, True]
    with pytest.raises(ExcessivePending, match="limit 2 in 10 s"):
        seen.first("K", b"2", 9.0)
    assert not seen.first("K", b"1", 10.0)
    assert seen.first("K", b"2", 10.0)


def test_an_id_is_kept_for_the_window_and_then_forgotten() -> None:
    seen = SeenRequests(window_s=10.0)
    assert seen.first("K", b"a", 0.0)
    assert seen.first("L", b"a", 0.0), "another key's"
    for now_s in (0.0, 9.9, 10.0, 19.9):
        assert not seen.first("K", b"a", now_s)
    assert seen.first("K", b"b", 20.0)
    assert not seen.first("K", b"b", 29.9)
    assert seen.first("K", b"a", 29.9)


def test_ids_are_bounded_and_the_oldest_go_first() -> None:
    seen = SeenRequests(window_s=1e6, ids_max=10)
    for number in range(100):
        assert seen.first("K", b"%d" % number, 0.0)
    assert not any(seen.first("K", b"%d" % number, 0.0) for number in range(90, 100))
    assert seen.first("K", b"5", 0.0)

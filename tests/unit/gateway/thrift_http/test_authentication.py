"""Signatures, body digest, clock and delegation."""

import base64
import hashlib
import hmac
import time
from typing import Any

import pytest

from opentalos.broker.values import LiveKey, PrincipalInfo
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.model.errors import ClockSkewed, InvalidCredential
from opentalos.model.identity import GUEST, Principal
from opentalos.model.limits import AuthLimits

ALICE = Principal(id="alice", number=7)
ROOT = Principal(id="root", number=1, admin=True)
BODY = b"some body"


class Keys:
    """Two keys, in memory."""

    def __init__(self) -> None:
        self.keys = {"KA": LiveKey(ALICE, b"sa", False), "KR": LiveKey(ROOT, b"sr", False)}

    def key(self, key_id: str) -> LiveKey | None:
        return self.keys.get(key_id)

    def find(self, caller: Principal, principal_id: str) -> PrincipalInfo | None:
        assert caller.admin
        known = {principal.id: principal for principal in (ALICE, ROOT)}
        found = known.get(principal_id)
        return PrincipalInfo(found, (), 0, False) if found else None


@pytest.fixture
def keys() -> Keys:
    return Keys()


def authenticator(keys: Keys, **limits: object) -> Authenticator:
    return Authenticator(keys, AuthLimits(**limits))  # type: ignore[arg-type] # a stand-in


def signed(
    key_id: str = "KA", secret: str = "sa", *, skew_s: int = 0, scheme: str = "Galaxy-V3",
    digest: str | None = None, query: str = "id=1&type=putMessage",
) -> Exchange:  # fmt: skip
    connection: Any = None  # these exchanges are never answered
    exchange = Exchange(connection, b"POST", b"/v1/api/message?" + query.encode(), {})
    digest = hashlib.md5(BODY).hexdigest() if digest is None else digest
    stamp = str(int(time.time()) + skew_s)
    text = (
        f"POST\n\nx\n\nx-xiaomi-content-md5:{digest}\nx-xiaomi-date:d\n"
        f"x-xiaomi-timestamp:{stamp}\n/v1/api/message"
    )
    signature = base64.b64encode(hmac.new(secret.encode(), text.encode(), hashlib.sha1).digest())
    exchange.body = BODY
    exchange.headers = {
        b"content-type": b"x",
        b"x-xiaomi-timestamp": stamp.encode(),
        b"x-xiaomi-date": b"d",
        b"x-xiaomi-content-md5": digest.encode(),
        b"authorization": f"{scheme} {key_id}:".encode() + signature,
    }
    return exchange


@pytest.mark.parametrize("scheme", ["Galaxy-V3", "Galaxy-V2", "OAuth"])
def test_a_signed_request_is_its_principals(keys: Keys, scheme: str) -> None:
    assert authenticator(keys).caller(signed(scheme=scheme)) is ALICE


@pytest.mark.parametrize(
    ("exchange", "reason"),
    [
        (signed(secret="wrong"), "unknown key or wrong signature"),
        (signed(key_id="nobody"), "unknown key or wrong signature"),
        (signed(key_id="Service-Admin"), "unknown key or wrong signature"),
        (signed(digest="0" * 32), "does not match the body"),
        (signed(scheme="SSO"), "malformed|not accepted"),
        (signed(scheme="Guest"), "Guest is not supported"),
        (signed(scheme="Basic"), "no known scheme"),
    ],
    ids=["secret", "key", "python-admin", "digest", "sso", "guest", "basic"],
)
def test_what_does_not_prove_its_key_is_refused(
    keys: Keys, exchange: Exchange, reason: str
) -> None:
    with pytest.raises(InvalidCredential, match=reason):
        authenticator(keys).caller(exchange)


def test_no_authorization_header_is_refused_even_for_guests(keys: Keys) -> None:
    exchange = signed()
    del exchange.headers[b"authorization"]
    with pytest.raises(InvalidCredential):
        authenticator(keys, anonymous=True).caller(exchange)


def test_guests_are_allowed_only_if_configured(keys: Keys) -> None:
    assert authenticator(keys, anonymous=True).caller(signed(scheme="Guest")) is GUEST


@pytest.mark.parametrize("skew_s", [-1000, 1000])
def test_a_skewed_clock_is_reported(keys: Keys, skew_s: int) -> None:
    with pytest.raises(ClockSkewed):
        authenticator(keys).caller(signed(skew_s=skew_s))
    assert authenticator(keys, clock_skew_max_s=2000).caller(signed(skew_s=skew_s)) is ALICE


@pytest.mark.parametrize("stamp", [b"", b"x", b"-5", "²".encode(), b"9" * 5000])
def test_a_timestamp_that_is_none_is_refused(keys: Keys, stamp: bytes) -> None:
    exchange = signed()
    exchange.headers[b"x-xiaomi-timestamp"] = stamp
    with pytest.raises((InvalidCredential, ClockSkewed)):
        authenticator(keys).caller(exchange)


def test_a_disabled_key_and_a_new_secret_count_from_the_next_request(keys: Keys) -> None:
    checker = authenticator(keys)
    assert checker.caller(signed()) is ALICE
    keys.keys["KA"] = LiveKey(ALICE, b"other", False)
    with pytest.raises(InvalidCredential):
        checker.caller(signed())
    assert checker.caller(signed(secret="other")) is ALICE
    keys.keys["KA"] = LiveKey(ALICE, b"other", True)
    with pytest.raises(InvalidCredential):
        checker.caller(signed(secret="other"))


def test_only_an_administrator_may_act_for_a_developer(keys: Keys) -> None:
    checker = authenticator(keys)
    exchange = signed("KR", "sr")
    exchange.headers[b"attached-info"] = b"alice"
    assert checker.caller(exchange) is ALICE
    exchange.headers[b"attached-info"] = b"nobody"
    with pytest.raises(InvalidCredential, match="unknown developer"):
        checker.caller(exchange)
    exchange = signed()
    exchange.headers[b"attached-info"] = b"root"
    with pytest.raises(InvalidCredential, match="administrators"):
        checker.caller(exchange)


def test_a_secret_in_the_clear_is_compared_whole(keys: Keys) -> None:
    checker = authenticator(keys)
    assert checker.by_secret("KA", "sa", "p") is ALICE
    for key_id, secret in (("KA", "s"), ("KA", ""), ("nobody", "sa")):
        with pytest.raises(InvalidCredential):
            checker.by_secret(key_id, secret, "p")


def test_refusals_are_audited_without_secrets_and_within_a_rate(
    keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    checker = authenticator(keys, denial_log_per_s_max=1)
    for _ in range(50):
        with pytest.raises(InvalidCredential):
            checker.by_secret("KA", "a-wrong-secret", "10.0.0.1")
        with pytest.raises(InvalidCredential):
            checker.caller(signed(secret="wrong"))
    assert checker.denials == 100
    assert 1 <= len(caplog.records) <= 5
    for record in caplog.records:
        assert vars(record)["who"] in ("Basic KA", "Galaxy-V3 KA")
        assert "a-wrong-secret" not in str(vars(record))

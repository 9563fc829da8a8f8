"""Signatures, body digest, clock and delegation."""

import base64
import hashlib
import hmac
import time
from typing import Any

import pytest

from opentalos.broker.values import LiveKey, PrincipalInfo
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.thrift_http.authentication import (
    DIGEST_BYTES_MAX,
    Authenticator,
    DigestNeeded,
    md5_of,
)
from opentalos.model.errors import AttemptsExceeded, ClockSkewed, InvalidCredential
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
    assert checker.by_secret("KA", "sa", "p", private=True) is ALICE
    for key_id, secret in (("KA", "s"), ("KA", ""), ("nobody", "sa")):
        with pytest.raises(InvalidCredential):
            checker.by_secret(key_id, secret, "p", private=True)


def test_refusals_are_audited_without_secrets_and_within_a_rate(
    keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    checker = authenticator(keys, denial_log_per_s_max=1)
    for _ in range(50):
        with pytest.raises(InvalidCredential):
            checker.by_secret("KA", "a-wrong-secret", "10.0.0.1", private=True)
        with pytest.raises(InvalidCredential):
            checker.caller(signed(secret="wrong"))
    assert checker.denials == 100
    assert 1 <= len(caplog.records) <= 5
    for record in caplog.records:
        assert vars(record)["who"] in ("Basic KA", "Galaxy-V3 KA")
        assert "a-wrong-secret" not in str(vars(record))


def test_wrong_secrets_of_one_address_are_not_checked_beyond_a_number(keys: Keys) -> None:
    checker = authenticator(keys, failures_max=5, failures_per_s=0.001)
    for _ in range(5):
        with pytest.raises(InvalidCredential):
            checker.by_secret("KA", "wrong", "198.51.100.1", private=True)
    for secret in ("wrong", "sa"):
        with pytest.raises(AttemptsExceeded, match="KA"):
            checker.by_secret("KA", secret, "198.51.100.1", private=True)
    assert checker.by_secret("KR", "sr", "198.51.100.1", private=True) is ROOT, "another key"
    assert checker.by_secret("KA", "sa", "198.51.100.2", private=True) is ALICE, "another address"
    assert checker.denials == 7


def test_wrong_signatures_of_one_address_are_not_checked_beyond_a_number(keys: Keys) -> None:
    checker = authenticator(keys, failures_max=5, failures_per_s=0.001)
    for _ in range(5):
        with pytest.raises(InvalidCredential):
            checker.caller(signed(secret="wrong"))
    with pytest.raises(AttemptsExceeded):
        checker.caller(signed())
    assert checker.by_secret("KA", "sa", "198.51.100.2", private=True) is ALICE


def test_guesses_of_unknown_keys_are_bounded_and_lock_no_known_key_out(keys: Keys) -> None:
    checker = authenticator(keys, failures_max=5, failures_per_s=0.001)
    for number in range(5):
        with pytest.raises(InvalidCredential):
            checker.by_secret(f"K{number}", "x", "198.51.100.1", private=True)
    with pytest.raises(AttemptsExceeded, match="unknown keys"):
        checker.by_secret("K9", "x", "198.51.100.1", private=True)
    assert checker.by_secret("KA", "sa", "198.51.100.1", private=True) is ALICE


def test_a_skewed_clock_or_a_wrong_digest_is_no_guess(keys: Keys) -> None:
    checker = authenticator(keys, failures_max=1, failures_per_s=0.001)
    with pytest.raises(ClockSkewed):
        checker.caller(signed(skew_s=99_999))
    with pytest.raises(InvalidCredential, match="MD5"):
        checker.caller(signed(digest="0" * 32))
    assert checker.caller(signed()) is ALICE


def test_a_secret_that_others_can_read_on_its_way_is_refused_unless_configured(
    keys: Keys,
) -> None:
    with pytest.raises(InvalidCredential, match="TLS"):
        authenticator(keys).by_secret("KA", "sa", "198.51.100.1", private=False)
    checker = authenticator(keys, secrets_over_http=True)
    assert checker.by_secret("KA", "sa", "198.51.100.1", private=False) is ALICE


def test_an_address_has_proven_a_key_after_a_valid_signature_only(keys: Keys) -> None:
    checker = authenticator(keys)
    assert checker.claimed("KA", "") == ("alice", False)
    with pytest.raises(InvalidCredential):
        checker.caller(signed(secret="wrong"))
    assert checker.claimed("KA", "") == ("alice", False)
    checker.caller(signed())
    assert checker.claimed("KA", "") == ("alice", True)
    assert checker.claimed("KA", "198.51.100.1") == ("alice", False)
    assert checker.claimed("nobody", "") == ("", False)
    keys.keys["KA"] = LiveKey(ALICE, b"another", False)
    assert checker.claimed("KA", "") == ("alice", False), "the secret is another one"
    keys.keys["KA"] = LiveKey(ALICE, b"another", True)
    assert checker.claimed("KA", "") == ("", False), "a disabled key"


def test_the_addresses_of_a_key_are_bounded(keys: Keys) -> None:
    checker = authenticator(keys)
    for number in range(300):
        checker.by_secret("KA", "sa", f"10.0.{number}.1", private=True)
    assert checker.claimed("KA", "10.0.0.1") == ("alice", False)
    assert checker.claimed("KA", "10.0.299.1") == ("alice", True)
    assert len(checker._states["KA"].proven) == 256


def test_a_large_body_is_digested_elsewhere_once_its_signature_is_right(keys: Keys) -> None:
    body = b"x" * (DIGEST_BYTES_MAX + 1)
    exchange = signed(digest=md5_of(body).decode())
    exchange.body = body
    with pytest.raises(DigestNeeded) as needed:
        authenticator(keys).caller(exchange)
    assert needed.value.caller == "alice"
    exchange.body_md5 = md5_of(body)
    assert authenticator(keys).caller(exchange) is ALICE
    exchange.body_md5 = md5_of(body + b"x")
    with pytest.raises(InvalidCredential, match="MD5"):
        authenticator(keys).caller(exchange)
    stranger = signed(secret="wrong")
    stranger.body = body
    with pytest.raises(InvalidCredential):
        authenticator(keys).caller(stranger)

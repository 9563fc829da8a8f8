"""Signatures, body digest, clock and delegation."""

import base64
import hashlib
import hmac
import time
from types import SimpleNamespace
from typing import Any

import pytest

from opentalos.broker.admin.certificate_principals import CertificatePrincipals
from opentalos.broker.audit.refused_callers import Refusal
from opentalos.broker.values import LiveKey, PrincipalInfo
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.thrift_http.authentication import (
    DIGEST_BYTES_MAX,
    Authenticator,
    DigestNeeded,
)
from opentalos.model.errors import AttemptsExceeded, ClockSkewed, InvalidCredential
from opentalos.model.identity import (
    GUEST,
    KeyLimits,
    PeerCertificate,
    Principal,
    Scope,
    parse_rules,
)
from opentalos.model.settings.security import AuthLimits
from opentalos.wire.signing import md5_of

ALICE = Principal(id="alice", number=7)
ROOT = Principal(id="root", number=1, admin=True)
BODY = b"some body"


class Keys:
    """Two keys, in memory."""

    def __init__(self) -> None:
        self.marked: dict[str, None] = {}
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
    connection: Any = SimpleNamespace(private=True, peer="")  # these exchanges are never answered
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
    "digest", ["00277a98d4b074d0883c0e3b204ad7af", "277a98d4b074d0883c0e3b204ad7af"]
)
def test_a_digest_may_lack_leading_zeros_and_is_signed_as_sent(keys: Keys, digest: str) -> None:
    exchange = signed(digest=digest)
    exchange.body = b"body 303"
    assert authenticator(keys).caller(exchange) is ALICE
    exchange.headers[b"x-xiaomi-content-md5"] = digest.rjust(33, "0").encode()
    with pytest.raises(InvalidCredential, match="wrong signature"):
        authenticator(keys).caller(exchange)


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
    keys: Keys, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are within one second, however long the machine takes for them."""
    monkeypatch.setattr("time.monotonic", lambda: 7.5)
    checker = authenticator(keys, denial_log_per_s_max=1)
    for _ in range(50):
        with pytest.raises(InvalidCredential):
            checker.by_secret("KA", "a-wrong-secret", "10.0.0.1", private=True)
        with pytest.raises(InvalidCredential):
            checker.caller(signed(secret="wrong"))
    assert checker.denials == 100
    assert len(caplog.records) == 1
    for record in caplog.records:
        assert vars(record)["who"] in ("Basic KA", "Galaxy-V3 KA")
        assert "a-wrong-secret" not in str(vars(record))


def test_every_refusal_is_reported_with_its_key_and_address(
    keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    refused: list[Refusal] = []
    checker = Authenticator(keys, AuthLimits(), refused=refused.append)  # type: ignore[arg-type]
    with pytest.raises(InvalidCredential):
        checker.by_secret("KA", "a-wrong-secret", "198.51.100.1", private=True)
    with pytest.raises(InvalidCredential):
        checker.caller(signed(secret="wrong"))
    alone = signed()
    alone.headers[b"authorization"] = b"a-secret-alone"
    with pytest.raises(InvalidCredential):
        checker.caller(alone)
    assert [each.key_id for each in refused] == ["KA", "KA", ""]
    assert refused[0].peer == "198.51.100.1"
    assert "a-secret-alone" not in caplog.text + str([vars(line) for line in caplog.records])


@pytest.mark.parametrize(
    ("sent", "who"),
    [
        (b"Basic a-secret", "Basic"), (b"Basic KA:a-secret", "Basic"),
        (b"bearer a-secret", "bearer"), (b"Digest a-secret", "Digest"),
        (b"a-secret", ""),
    ],
)  # fmt: skip
def test_a_header_that_cannot_be_read_is_audited_without_its_text(
    keys: Keys, caplog: pytest.LogCaptureFixture, sent: bytes, who: str
) -> None:
    refused: list[Refusal] = []
    checker = Authenticator(keys, AuthLimits(), refused=refused.append)  # type: ignore[arg-type]
    request = signed()
    request.headers[b"authorization"] = sent
    with pytest.raises(InvalidCredential):
        checker.by_header(request)
    assert checker.denials == 1
    assert [each.key_id for each in refused] == [""]
    (line,) = caplog.records
    assert vars(line)["who"] == who
    assert "a-secret" not in str(vars(line))


def test_a_request_without_a_header_asks_how_to_authenticate_and_is_no_failure(keys: Keys) -> None:
    checker = authenticator(keys)
    request = signed()
    del request.headers[b"authorization"]
    with pytest.raises(InvalidCredential, match="missing credentials"):
        checker.by_header(request)
    assert checker.denials == 0


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


def test_an_expired_key_is_refused_however_it_is_sent(keys: Keys) -> None:
    checker, now_ms = authenticator(keys), int(time.time() * 1000)
    keys.keys["KA"] = LiveKey(ALICE, b"sa", False, limits=KeyLimits(expires_ms=now_ms + 10**9))
    assert checker.caller(signed()) is ALICE
    assert checker.by_secret("KA", "sa", "10.0.0.1", private=True) is ALICE
    keys.keys["KA"] = LiveKey(ALICE, b"sa", False, limits=KeyLimits(expires_ms=now_ms - 1))
    with pytest.raises(InvalidCredential, match="expired"):
        checker.caller(signed())
    with pytest.raises(InvalidCredential, match="expired"):
        checker.by_secret("KA", "sa", "10.0.0.1", private=True)
    with pytest.raises(InvalidCredential, match="unknown key or wrong signature"):
        checker.by_secret("KA", "wrong", "10.0.0.1", private=True)


def test_a_key_with_networks_is_refused_from_elsewhere(keys: Keys) -> None:
    checker = authenticator(keys)
    limits = KeyLimits(addresses=("10.1.0.0/16", "2001:db8::/32"))
    keys.keys["KA"] = LiveKey(ALICE, b"sa", False, limits=limits)
    for peer in ("10.1.2.3", "::ffff:10.1.2.3", "2001:db8::7"):
        assert checker.by_secret("KA", "sa", peer, private=True) is ALICE
    for peer in ("10.2.0.1", "::1", "", "socket"):
        with pytest.raises(InvalidCredential, match="may not be used from"):
            checker.by_secret("KA", "sa", peer, private=True)
    exchange = signed()
    exchange.client = "10.1.2.3"  # as the server that forwarded it has proved
    assert checker.caller(exchange) is ALICE
    exchange.client = "10.9.2.3"
    with pytest.raises(InvalidCredential, match=r"may not be used from 10\.9\.2\.3"):
        checker.caller(exchange)


def test_only_a_key_that_was_accepted_is_marked_as_used(keys: Keys) -> None:
    checker = authenticator(keys)
    for attempt in (signed(secret="wrong"), signed(digest="0" * 32), signed(key_id="nobody")):
        with pytest.raises(InvalidCredential):
            checker.caller(attempt)
    assert not keys.marked
    checker.caller(signed())
    checker.by_secret("KR", "sr", "p", private=True)
    assert list(keys.marked) == ["KA", "KR"]


def test_acting_for_a_developer_keeps_the_limits_of_the_administrators_key(keys: Keys) -> None:
    limits = KeyLimits(scopes=(Scope.ADMIN, Scope.GET))
    root = Principal(id="root", number=1, admin=True, limits=limits)
    keys.keys["KR"] = LiveKey(root, b"sr", False, limits=limits)
    exchange = signed("KR", "sr")
    exchange.headers[b"attached-info"] = b"alice"
    acting = authenticator(keys).caller(exchange)
    assert (acting.id, acting.limits) == ("alice", limits)


def _on_certificate(*names: tuple[str, str], **headers: bytes) -> Exchange:
    certificate = PeerCertificate(names, time.time() + 60)
    connection: Any = SimpleNamespace(certificate=certificate, peer="10.0.0.1")
    exchange = Exchange(connection, b"POST", b"/v1/api/message", {})
    exchange.headers |= {name.encode(): value for name, value in headers.items()}
    return exchange


def _with_certificates(keys: Keys) -> Authenticator:
    def info(name: str) -> PrincipalInfo | None:
        known = {"alice": ALICE, "root": ROOT}
        return PrincipalInfo(known[name], (), 0, False) if name in known else None

    directory: Any = SimpleNamespace(info=info)
    certificates = CertificatePrincipals(directory, parse_rules("cn=*"))
    return Authenticator(keys, AuthLimits(), certificates)  # type: ignore[arg-type] # a stand-in


def test_a_request_without_authorization_is_its_certificates(keys: Keys) -> None:
    checker = _with_certificates(keys)
    exchange = _on_certificate(("cn", "alice"))
    assert checker.caller(exchange) is ALICE
    assert exchange.named == "alice"
    assert checker.by_certificate(_on_certificate(("cn", "alice"))) is ALICE


def test_a_certificate_that_names_no_usable_principal_is_refused(keys: Keys) -> None:
    checker = _with_certificates(keys)
    for name in ("nobody", "root"):
        with pytest.raises(InvalidCredential):
            checker.caller(_on_certificate(("cn", name)))
        with pytest.raises(InvalidCredential):
            checker.by_certificate(_on_certificate(("cn", name)))
    with pytest.raises(InvalidCredential):
        checker.caller(_on_certificate(("dns", "alice")))
    assert checker.by_certificate(_on_certificate(("dns", "alice"))) is None


def test_a_header_that_proves_nothing_is_not_made_good_by_a_certificate(keys: Keys) -> None:
    checker = _with_certificates(keys)
    exchange = _on_certificate(("cn", "alice"), authorization=b"Galaxy-V3 KA:wrong")
    with pytest.raises(InvalidCredential):
        checker.caller(exchange)
    assert checker.by_certificate(exchange) is None


def test_a_forwarded_request_is_its_clients_not_the_forwarding_servers(keys: Keys) -> None:
    checker = _with_certificates(keys)
    exchange = _on_certificate(("cn", "alice"))
    exchange.forwarder = "s3"  # whose certificate the connection has
    with pytest.raises(InvalidCredential):
        checker.caller(exchange)
    exchange = _on_certificate(("cn", "server"))
    exchange.forwarder, exchange.named = "s3", "alice"
    assert checker.caller(exchange) is ALICE


def test_without_rules_a_certificate_identifies_nobody(keys: Keys) -> None:
    checker = authenticator(keys)
    with pytest.raises(InvalidCredential):
        checker.caller(_on_certificate(("cn", "alice")))
    assert checker.by_certificate(_on_certificate(("cn", "alice"))) is None

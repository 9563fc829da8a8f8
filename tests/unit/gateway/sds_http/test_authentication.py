"""Callers of SDS: the JSON header of older clients beside the signatures of Talos."""

import hashlib
import hmac
import time
from types import SimpleNamespace
from typing import Any

import pytest

from opentalos.broker.values import LiveKey
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.sds_http.authentication import SdsAuthenticator
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.model.errors import ClockSkewed, InvalidCredential
from opentalos.model.identity import GUEST, Principal
from opentalos.model.settings.security import AuthLimits

ALICE = Principal(id="alice", number=7)
BODY = b"some body"
NAMES = ("Host", "X-Xiaomi-Timestamp", "X-Xiaomi-Content-MD5")


class Keys:
    """One key, in memory."""

    def __init__(self, *, refuse_replays: bool = False) -> None:
        live = LiveKey(ALICE, b"sa", False, refuse_replays=refuse_replays)
        self.keys = {"KA": live}
        self.marked: dict[str, None] = {}

    def key(self, key_id: str) -> LiveKey | None:
        return self.keys.get(key_id)


def authenticator(keys: Keys | None = None, **limits: object) -> SdsAuthenticator:
    inner = Authenticator(keys or Keys(), AuthLimits(**limits))  # type: ignore[arg-type]
    return SdsAuthenticator(inner)


def caller(judge: SdsAuthenticator, exchange: Exchange, *, changes: bool = True) -> Principal:
    """Whom a call is from that is accepted, as the gateway asks."""
    sender = judge.caller(exchange)
    if changes and sender.once is not None:
        judge.check_once(exchange, sender.once)
    return sender.caller


def signed(
    key_id: str = "KA", secret: str = "sa", *, skew_s: int = 0, digest: str | None = None,
    names: tuple[str, ...] = NAMES, more: str = "", user_type: int = 10,
) -> Exchange:  # fmt: skip
    connection: Any = SimpleNamespace(alive=True, peer="10.0.0.1", secure=False, private=False)
    exchange = Exchange(connection, b"POST", b"/v1/api/table?id=1&type=get", {})
    digest = hashlib.md5(BODY).hexdigest() if digest is None else digest
    values = {"Host": "h", "X-Xiaomi-Timestamp": str(int(time.time()) + skew_s)}
    values |= {"X-Xiaomi-Content-MD5": digest, "X-Xiaomi-Request-Id": "r1"}
    text = "\n".join(values[name] for name in names)
    signature = hmac.new(secret.encode(), text.encode(), hashlib.sha1).hexdigest()
    listed = "".join(f',"{name}"' for name in names)
    exchange.body = BODY
    exchange.headers = {name.lower().encode(): value.encode() for name, value in values.items()}
    exchange.headers[b"host"] = b"h:80,h"
    exchange.headers[b"authorization"] = (
        f'{{"1":{{"str":"SDS-V1"}},"2":{{"i32":{user_type}}},"3":{{"str":"{key_id}"}},{more}'
        f'"5":{{"str":"{signature}"}},"6":{{"i32":2}},"7":{{"lst":["str",{len(names)}{listed}]}}}}'
    ).encode()
    return exchange


def test_a_signed_request_is_its_principals() -> None:
    assert caller(authenticator(), signed()) is ALICE


def test_a_digest_may_lack_leading_zeros() -> None:
    exchange = signed(digest="277a98d4b074d0883c0e3b204ad7af")
    exchange.body = b"body 303"
    assert caller(authenticator(), exchange) is ALICE


@pytest.mark.parametrize(
    ("exchange", "reason"),
    [
        (signed(secret="wrong"), "unknown key or wrong signature"),
        (signed(key_id="nobody"), "unknown key or wrong signature"),
        (signed(digest="0" * 32), "does not match the body"),
        (signed(names=NAMES[:2]), "must be: x-xiaomi-content-md5"),
        (signed(user_type=12), "single sign-on"),
        (signed(key_id=""), "without a key"),
        (signed(more='"4":{"str":"sa"},'), "needs TLS"),
    ],
    ids=["secret", "key", "digest", "unsigned", "sso", "guest", "plain"],
)
def test_what_does_not_prove_its_key_is_refused(exchange: Exchange, reason: str) -> None:
    judge = authenticator()
    with pytest.raises(InvalidCredential, match=reason):
        caller(judge, exchange)


@pytest.mark.parametrize("skew_s", [-2_000, 2_000])
def test_a_skewed_clock_is_reported(skew_s: int) -> None:
    with pytest.raises(ClockSkewed):
        caller(authenticator(), signed(skew_s=skew_s))


def test_a_caller_without_a_key_is_a_guest_if_guests_are_allowed() -> None:
    assert caller(authenticator(anonymous=True), signed(key_id="")) is GUEST


def test_a_secret_in_the_header_is_taken_over_tls() -> None:
    exchange = signed(more='"4":{"str":"sa"},')
    connection: Any = SimpleNamespace(alive=True, peer="10.0.0.1", secure=True, private=True)
    exchange._connection = connection
    assert caller(authenticator(), exchange) is ALICE
    exchange = signed(more='"4":{"str":"wrong"},')
    exchange._connection = connection
    with pytest.raises(InvalidCredential, match="unknown key"):
        caller(authenticator(), exchange)


def test_a_copy_with_another_unsigned_id_is_a_copy() -> None:
    judge = authenticator(Keys(refuse_replays=True))
    first, copy = signed(), signed()
    copy.headers = {**first.headers, b"x-xiaomi-request-id": b"r2"}
    assert caller(judge, first) is ALICE
    with pytest.raises(InvalidCredential, match="received before"):
        caller(judge, copy)


def test_a_signed_id_distinguishes_requests() -> None:
    judge = authenticator()
    names = (*NAMES, "X-Xiaomi-Request-Id")
    assert caller(judge, signed(names=names)) is ALICE
    with pytest.raises(InvalidCredential, match="received before"):
        caller(judge, signed(names=names))


def renamed(first: Exchange, name: str) -> Exchange:
    """A copy whose signed request id goes by another name."""
    copy = signed()
    headers = dict(first.headers)
    headers[name.lower().encode()] = headers.pop(b"x-xiaomi-request-id")
    value = headers[b"authorization"]
    headers[b"authorization"] = value.replace(b"X-Xiaomi-Request-Id", name.encode())
    copy.headers = headers
    return copy


@pytest.mark.parametrize("refuse_replays", [False, True])
def test_a_copy_that_renames_the_signed_id_is_refused(refuse_replays: bool) -> None:
    judge = authenticator(Keys(refuse_replays=refuse_replays))
    first = signed(names=(*NAMES, "X-Xiaomi-Request-Id"))
    assert caller(judge, first, changes=False) is ALICE
    for name in ("X-Other", "Accept", "X-Xiaomi-Request-ID"):
        with pytest.raises(InvalidCredential, match="received before"):
            caller(judge, renamed(first, name), changes=False)


def test_a_renamed_copy_that_is_first_uses_the_signature_up() -> None:
    judge = authenticator()
    first = signed(names=(*NAMES, "X-Xiaomi-Request-Id"))
    assert caller(judge, renamed(first, "X-Other")) is ALICE
    for copy in (first, renamed(first, "X-Another")):
        with pytest.raises(InvalidCredential, match="received before"):
            caller(judge, copy)


def test_the_operator_may_accept_writes_without_an_id_once() -> None:
    judge, exchange = authenticator(sds_v1="once"), signed()
    for _ in range(3):
        assert caller(judge, exchange, changes=False) is ALICE
    assert caller(judge, exchange) is ALICE
    with pytest.raises(InvalidCredential, match="received before"):
        caller(judge, exchange)


def test_writes_without_an_id_may_be_repeated_as_the_official_client_does() -> None:
    judge, exchange = authenticator(), signed()
    for _ in range(3):
        assert caller(judge, exchange) is ALICE
    with_id = signed(names=(*NAMES, "X-Xiaomi-Request-Id"))
    assert caller(judge, with_id) is ALICE
    with pytest.raises(InvalidCredential, match="received before"):
        caller(judge, renamed(with_id, "X-Other"))


def test_the_operator_may_turn_the_json_header_off() -> None:
    with pytest.raises(InvalidCredential, match="not accepted here"):
        caller(authenticator(sds_v1="off"), signed())
    with pytest.raises(ValueError, match="sds_v1 must be one of repeat, once, off"):
        AuthLimits(sds_v1="on")


def test_the_signatures_of_talos_are_known_as_well() -> None:
    exchange = signed()
    exchange.headers[b"authorization"] = b"Galaxy-V2 KA:bm8="
    with pytest.raises(InvalidCredential, match="wrong signature"):
        caller(authenticator(), exchange)

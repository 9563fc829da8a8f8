"""Authentication of signed requests: the Authorization header, the body's MD5, the timestamp.

Source: docs/protocol/signatures.md.
"""

import hmac
import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from opentalos.broker.admin.certificate_principals import CertificatePrincipals
from opentalos.broker.admin.principals import PrincipalService
from opentalos.broker.audit.refused_callers import Refusal
from opentalos.broker.values import LiveKey, with_limits
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.rest.routing.credentials import credentials_of
from opentalos.gateway.thrift_http.guess_limit import GuessLimit
from opentalos.gateway.thrift_http.replay_guard import SeenRequests
from opentalos.model.address import network_of
from opentalos.model.errors import AttemptsExceeded, ClockSkewed, InvalidCredential
from opentalos.model.identity import GUEST, Principal
from opentalos.model.settings.security import AuthLimits
from opentalos.wire.content_mac import is_content_mac
from opentalos.wire.signing import (
    CONTENT_MAC,
    HmacState,
    Scheme,
    is_digest,
    md5_of,
    parse_authorization,
    string_to_sign,
)

_V3 = b"Galaxy-V3 "
_MAC = CONTENT_MAC.encode()
DIGEST_BYTES_MAX = 1 << 20  # digested on the loop, 2 ms
_KEYS_MAX = 100_000  # cached HMAC states
_PROVEN_MAX = 256  # addresses of a key
NO_MATCH = "unknown key or wrong signature"
_EXPOSED = (
    "secrets and tokens are not accepted without TLS from another machine; use TLS, or set "
    "secrets_over_http in [auth] if nobody can read the network"
)
_NOT_SIGNED = "Attached-Info is not signed; send the same value as X-Xiaomi-Attached-Info"
_CHANGEABLE = (
    "Attached-Info is not signed, so it is not accepted without TLS from another machine; use TLS, "
    "or send the same value as X-Xiaomi-Attached-Info"
)
# The original sender may get this too, if a proxy repeats requests; so it names the outcome.
_CAME_BEFORE = "this signed request was received before; outcome unknown"


_ATTACHED = b"attached-info"
_ATTACHED_SIGNED = b"x-xiaomi-attached-info"

_AUDIT = logging.getLogger("opentalos.audit")
_SHOWN_CHARS_MAX = 64  # of a caller's text in an audit line


class DigestNeeded(Exception):
    """The signature is right and the body so large that its digest needs a thread."""

    def __init__(self, caller: str) -> None:
        super().__init__(caller)
        self.caller = caller


class _KeyState(NamedTuple):
    live: LiveKey
    hmac: HmacState
    proven: dict[str, None]  # addresses that have sent a valid signature, the oldest first


class Claim(NamedTuple):
    """A request's statement about its caller."""

    key_id: str
    signature: bytes
    request_id: bytes | None  # what it is accepted once by; None: it may be repeated
    names_signed: bool = True  # whether the signature covers the names of headers
    content_mac: bytes = b""  # signed in place of the body's MD5


class Authenticator:
    """Finds the principal that signed a request; caches HMAC states per key (hot path)."""

    def __init__(
        self,
        principals: PrincipalService,
        limits: AuthLimits,
        certificates: CertificatePrincipals | None = None,
        refused: Callable[[Refusal], None] | None = None,
    ) -> None:
        self.principals = principals
        self._refused = refused  # None: refusals are only logged
        self._skew_max_s = limits.clock_skew_max_s
        self._attached_info_signed = limits.attached_info_signed
        self.sds_v1 = limits.sds_v1
        self.anonymous = limits.anonymous  # whether unsigned Guest requests are accepted
        # A timestamp may be ahead by the largest skew, so copies stay valid for twice that time.
        self._seen = SeenRequests(2 * limits.clock_skew_max_s)
        # Its own memory, so that the many requests with ids do not displace these.
        self._seen_values = SeenRequests(2 * limits.clock_skew_max_s)
        self._seen_strictly = SeenRequests(2 * limits.clock_skew_max_s, strict=True)
        self._states: dict[str, _KeyState] = {}
        self._guesses = GuessLimit(limits.failures_max, limits.failures_per_s)
        self._secrets_over_http = limits.secrets_over_http
        self._certificates = certificates  # None: certificates identify nobody
        self._marked = principals.marked  # keys in use
        self._lines_max = limits.denial_log_per_s_max
        self._second, self._lines, self._left_out = 0, 0, 0
        self.denials = 0  # since the start

    def caller(self, exchange: Exchange) -> Principal:
        """The principal. Raises: InvalidCredential (401), ClockSkewed (412), AttemptsExceeded
        (429), all audited; ExcessivePending: too many requests to detect every replay;
        DigestNeeded: call again with ``body_md5`` set."""
        try:
            return self._caller(exchange)
        except (InvalidCredential, ClockSkewed, AttemptsExceeded) as error:
            self.deny(exchange.peer, exchange.headers.get(b"authorization", b""), error)
            raise

    def by_claim(
        self, exchange: Exchange, claim: Claim, matches: Callable[[bytes], bool]
    ) -> Principal:
        """The principal of a key that signed digest and timestamp by another rule.

        Args:   matches: whether the signature was made with this secret.
        Raises: as ``caller``.
        """
        try:
            state = self._state(claim.key_id, exchange.peer)
            self._check_match(state, claim.key_id, exchange.peer, matches(state.live.secret))
            return self._admitted(exchange, state, claim)
        except (InvalidCredential, ClockSkewed, AttemptsExceeded) as error:
            self.deny(exchange.peer, b"%b:" % claim.key_id.encode(), error)
            raise

    def _caller(self, exchange: Exchange) -> Principal:
        headers = exchange.headers
        value = headers.get(b"authorization", b"")
        if not value and self._certificates is not None:
            named = self._certified(exchange, self._certificates)
            if named is not None:
                return named
        if value.startswith(_V3):
            key, _, signature = value[len(_V3) :].rpartition(b":")
            key_id = key.decode("utf-8", "replace")
        else:
            authorization = parse_authorization(value)
            if authorization.scheme is Scheme.GUEST and self.anonymous:
                return GUEST
            if not authorization.signed:
                raise InvalidCredential(
                    f"authentication by {authorization.scheme.value} is not supported here"
                )
            key_id, signature = authorization.key_id, authorization.signature
        peer = exchange.peer
        state = self._state(key_id, peer)
        text = string_to_sign(exchange.method, exchange.path, exchange.query, headers)
        matched = state.hmac.matches(text, signature)
        if not matched or peer not in state.proven:
            self._check_match(state, key_id, peer, matched)
        request_id = headers.get(b"x-xiaomi-request-id")
        mac = headers.get(_MAC, b"")
        return self._admitted(exchange, state, Claim(key_id, signature, request_id, True, mac))

    def _admitted(self, exchange: Exchange, state: _KeyState, claim: Claim) -> Principal:
        """Check digest and timestamp, which the signature covers, and reject replays."""
        headers = exchange.headers
        if claim.content_mac:
            secret, sent = state.live.secret, claim.content_mac
            if not is_content_mac(secret, claim.request_id, exchange.body, sent):
                raise InvalidCredential("X-Xiaomi-Content-Poly1305 does not match the body")
        else:
            self._check_digest(exchange, state)
        self._check_clock(headers.get(b"x-xiaomi-timestamp", b""))
        if state.live.limits is not None:
            state.live.check_use(exchange.peer, int(time.time() * 1000))
        self._marked[claim.key_id] = None
        if state.live.refuse_replays:
            once = claim.request_id or claim.signature
            self._check_first(self._seen_strictly, claim.key_id, once)
        elif claim.request_id is not None:
            seen = self._seen if claim.names_signed else self._seen_values
            self._check_first(seen, claim.key_id, claim.request_id)
        if _ATTACHED in headers or _ATTACHED_SIGNED in headers:
            return self._delegate(state.live.principal, exchange, claim)
        return state.live.principal

    def _check_digest(self, exchange: Exchange, state: _KeyState) -> None:
        digest = exchange.body_md5
        if not digest:
            if len(exchange.body) > DIGEST_BYTES_MAX:
                raise DigestNeeded(state.live.principal.id)
            digest = md5_of(exchange.body)
        sent = exchange.headers.get(b"x-xiaomi-content-md5", b"")
        if sent != digest and not is_digest(sent, digest):
            raise InvalidCredential("X-Xiaomi-Content-MD5 does not match the body")

    def check_unsigned_names(self, exchange: Exchange, claim: Claim) -> None:
        """Accept a signature that covers no names of headers once. Raises: InvalidCredential."""
        try:
            self._check_first(self._seen_values, claim.key_id, claim.signature)
        except InvalidCredential as error:
            self.deny(exchange.peer, b"%b:" % claim.key_id.encode(), error)
            raise

    def _check_first(self, seen: SeenRequests, key_id: str, request_id: bytes) -> None:
        if not seen.first(key_id, request_id, time.monotonic()):
            raise InvalidCredential(_CAME_BEFORE)

    def by_certificate(self, exchange: Exchange) -> Principal | None:
        """The principal of the connection's certificate, for a request without Authorization;
        None: it identifies nobody. Raises: InvalidCredential, audited."""
        if self._certificates is None or exchange.headers.get(b"authorization"):
            return None
        try:
            return self._certified(exchange, self._certificates)
        except InvalidCredential as error:
            self.deny(exchange.peer, b"certificate:", error)
            raise

    def _certified(
        self, exchange: Exchange, certificates: CertificatePrincipals
    ) -> Principal | None:
        # The server that forwarded a request has named its client's certificate.
        name = exchange.named or certificates.name(exchange.certificate, time.time())
        if not name:
            return None
        principal = certificates.principal(name)
        exchange.named = name
        return principal

    def by_secret(self, key_id: str, secret: str, peer: str, *, private: bool) -> Principal:
        """The principal of a key id and secret sent in the clear (HTTP basic).

        Args:   private: nobody else could read them on their way.
        Raises: InvalidCredential, AttemptsExceeded; both audited.
        """
        try:
            self.check_private(private)
            state = self._state(key_id, peer)
            same = hmac.compare_digest(state.live.secret, secret.encode())
            self._check_match(state, key_id, peer, same)
            state.live.check_use(peer, int(time.time() * 1000))
        except (InvalidCredential, AttemptsExceeded) as error:
            self.deny(peer, b"Basic %b:" % key_id.encode(), error)
            raise
        self._marked[key_id] = None
        return state.live.principal

    def check_attempts(self, key_id: str, peer: str) -> None:
        """Whether an address may prove to have this key now. Raises: AttemptsExceeded, audited."""
        live = self.principals.key(key_id)
        known = live is not None and not live.disabled
        try:
            self._guesses.check(network_of(peer), key_id if known else "")
        except AttemptsExceeded as error:
            self.deny(peer, b"Proof %b:" % key_id.encode(), error)
            raise

    def by_proof(self, key_id: str, peer: str, scheme: str, proven: bool) -> Principal:
        """The principal of a key whose secret was proven, or was not.

        Raises: InvalidCredential, AttemptsExceeded; both audited.
        """
        try:
            state = self._state(key_id, peer)
            self._check_match(state, key_id, peer, proven)
            state.live.check_use(peer, int(time.time() * 1000))
        except (InvalidCredential, AttemptsExceeded) as error:
            self.deny(peer, f"{scheme} {key_id}:".encode(), error)
            raise
        self._marked[key_id] = None
        return state.live.principal

    def by_header(self, exchange: Exchange) -> tuple[Principal, str]:
        """The principal and the key id that the Authorization header sends with a secret.

        Raises: InvalidCredential, AttemptsExceeded; both audited, unless there is no header: a
            client may ask first how to authenticate.
        """
        value = exchange.headers.get(b"authorization", b"")
        try:
            key_id, secret = credentials_of(value)
        except InvalidCredential as error:
            if value:
                scheme, space, _ = value.partition(b" ")
                self.deny(exchange.peer, scheme + space, error)  # the rest may be a secret
            raise
        caller = self.by_secret(key_id, secret, exchange.peer, private=exchange.private)
        return caller, key_id

    def check_private(self, private: bool) -> None:
        """Raises: InvalidCredential: others can read what is sent in the clear."""
        if not private and not self._secrets_over_http:
            raise InvalidCredential(_EXPOSED)

    def deny(self, peer: str, authorization: bytes, error: Exception) -> None:
        """Audit a refusal, with neither signature nor secret: an event, and a line of the log, of
        which there are so many per second."""
        self.denials += 1
        shown, colon, _ = authorization.partition(b":")
        if not colon:  # without a key id the text may be a secret
            scheme, space, _ = shown.partition(b" ")
            shown = scheme if space else b""
        who = shown[:_SHOWN_CHARS_MAX].decode("latin-1")
        if self._refused is not None:
            self._refused(Refusal(peer, who.rpartition(" ")[2] if colon else "", error))
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._lines = second, 0
        if self._lines >= self._lines_max:
            self._left_out += 1
            return
        self._lines += 1
        left_out, self._left_out = self._left_out, 0
        fields = {"peer": peer, "who": who, "reason": str(error), "left_out": left_out}
        _AUDIT.warning("authentication failed", extra=fields)

    def claimed(self, key_id: str, peer: str) -> tuple[str, bool]:
        """The tenant of a live key, or "", and whether the address has proven to have it."""
        live = self.principals.key(key_id)
        if live is None or live.disabled:
            return "", False
        state = self._states.get(key_id)
        proven = state is not None and state.live == live and peer in state.proven
        return live.principal.organisation or live.principal.id, proven

    def _check_match(self, state: _KeyState, key_id: str, peer: str, matched: bool) -> None:
        """Note what an address showed of a key. Raises: InvalidCredential: it does not have it."""
        proven = state.proven
        if not matched:
            self._guesses.failed(network_of(peer), key_id)
            raise InvalidCredential(NO_MATCH)
        if peer not in proven:
            if len(proven) >= _PROVEN_MAX:
                del proven[next(iter(proven))]
            proven[peer] = None

    def _state(self, key_id: str, peer: str) -> _KeyState:
        """What is known of a live key. Raises: InvalidCredential, AttemptsExceeded."""
        live = self.principals.key(key_id)
        if live is None or live.disabled:
            network = network_of(peer)
            self._guesses.check(network, "")
            self._guesses.failed(network, "")
            raise InvalidCredential(NO_MATCH)
        if self._guesses.pairs:
            self._guesses.check(network_of(peer), key_id)
        state = self._states.get(key_id)
        if state is None or (state.live is not live and state.live != live):
            if len(self._states) >= _KEYS_MAX:
                self._states.clear()
            state = self._states[key_id] = _KeyState(live, HmacState(live.secret), {})
        return state

    def _check_clock(self, sent: bytes) -> None:
        if not sent.isdigit():
            raise InvalidCredential("X-Xiaomi-Timestamp is missing or not a number")
        skew_s = int(sent[:20]) - time.time()
        if abs(skew_s) > self._skew_max_s:
            raise ClockSkewed(
                f"the request's timestamp differs by {abs(skew_s):.0f} s from the server's clock, "
                f"limit {self._skew_max_s} s; synchronize the client's clock"
            )

    def _delegate(self, admin: Principal, exchange: Exchange, claim: Claim) -> Principal:
        """The developer an administrator acts for (``Service-Admin#key#developer``).

        Source: docs/protocol/signatures.md#attached-info
        """
        headers = exchange.headers
        sent = headers.get(_ATTACHED)
        copy = headers.get(_ATTACHED_SIGNED) if claim.names_signed else None
        # Without this, removing the unsigned header would turn a call for a developer into the
        # administrator's own.
        if copy is not None and copy != sent:
            raise InvalidCredential("Attached-Info differs from its signed copy")
        if sent is None:
            return admin
        if not admin.admin:
            raise InvalidCredential("only service administrators may send Attached-Info")
        if copy is None and self._attached_info_signed:
            raise InvalidCredential(_NOT_SIGNED)
        if copy is None and not (exchange.private or self._secrets_over_http):
            raise InvalidCredential(_CHANGEABLE)
        wanted = sent.decode("latin-1").strip()
        info = self.principals.find(admin, wanted)
        if info is None or info.disabled:
            raise InvalidCredential("Attached-Info names an unknown developer")
        return with_limits(info.principal, admin.limits)

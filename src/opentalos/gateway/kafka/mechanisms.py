"""SASL mechanisms: PLAIN, SCRAM and OAUTHBEARER, each ending in one principal.

What a mechanism finds also says how to find out later that it no longer holds.

Source: RFC 4616 (PLAIN), RFC 5802 and 7677 (SCRAM), RFC 7628 (OAUTHBEARER).
"""

import hmac
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from opentalos.broker.broker import Broker
from opentalos.gateway.kafka.call import ClientSession
from opentalos.gateway.rest.token_callers import TokenCallers
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.model.errors import InvalidCredential
from opentalos.model.identity import Principal
from opentalos.wire.kafka import scram

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
DIGESTS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
KEYS_MAX: Final = 10_000  # derived keys that are kept
_NONCE_BYTES: Final = 18
_SALT_BYTES: Final = 16
_TOKEN_MESSAGE: Final = re.compile(r"[ny],(?:a=([^,]*))?,\x01((?:[^\x01]+\x01)*)\x01")
_BEARER: Final = re.compile(r"auth=Bearer +(\S+)", re.IGNORECASE)
_ACTS = "nobody may act as another user"


class Authenticated(NamedTuple):
    """Who a client is. ``check``: the principal as it is now; raises InvalidCredential once the
    key or token does not hold any more. ``ends_s``: Unix time of that, 0: not known."""

    principal: Principal
    check: Callable[[], Principal]
    ends_s: float = 0.0


class Step(NamedTuple):
    """What a message of the client led to: bytes for it, and who it is once that is known."""

    answer: bytes = b""
    found: Authenticated | None = None


class Mechanism(Protocol):
    """One exchange."""

    async def step(self, data: bytes) -> Step:
        """Raises: InvalidCredential, AttemptsExceeded, Unavailable, ValueError: not of the form."""


class Mechanisms:
    """Starts exchanges. Args: tokens: None: OAUTHBEARER is not offered."""

    def __init__(
        self, broker: Broker, authenticator: Authenticator, tokens: TokenCallers | None
    ) -> None:
        self._broker, self._authenticator, self._tokens = broker, authenticator, tokens
        self._derived = DerivedKeys(broker, authenticator)
        self.names = [PLAIN, *DIGESTS, *([OAUTHBEARER] if tokens is not None else [])]

    def begin(self, name: str, session: ClientSession) -> Mechanism:
        """An exchange of one of ``names``."""
        if name == PLAIN:
            return Plain(self._authenticator, session)
        if name in DIGESTS:
            nonce = self._broker.context.clock.token(_NONCE_BYTES).hex()
            return Scram(name, nonce, self._authenticator, self._derived, session)
        assert self._tokens is not None
        return OAuthBearer(self._tokens, session)


class Plain:
    """User name and password: a key's id and secret, in the clear."""

    def __init__(self, authenticator: Authenticator, session: ClientSession) -> None:
        self._authenticator, self._session = authenticator, session

    async def step(self, data: bytes) -> Step:
        """See Mechanism."""
        parts = data.split(b"\0")
        if len(parts) != 3:
            raise ValueError("PLAIN needs authorization id, user name and password")
        authorize_as, name, password = (part.decode("utf-8", "replace") for part in parts)
        if authorize_as not in ("", name):
            raise ValueError(_ACTS)
        authenticator, session = self._authenticator, self._session
        found = authenticator.by_secret(name, password, session.peer, private=session.private)
        return Step(found=of_key(authenticator, name, session.peer, found))


def of_key(
    authenticator: Authenticator, key_id: str, peer: str, principal: Principal
) -> Authenticated:
    """Who has proven to have the key."""
    key = authenticator.principals.key
    first = key(key_id)
    secret = first.secret if first else b""
    limits = first.limits if first else None

    def check() -> Principal:
        live = key(key_id)
        if live is None or live.disabled or live.secret != secret:
            raise InvalidCredential("the key was removed or disabled")
        if live.limits is not None:
            live.check_use(peer, int(time.time() * 1000))
        return live.principal

    return Authenticated(principal, check, limits.expires_ms / 1000 if limits else 0.0)


class DerivedKeys:
    """Keys derived from secrets, since that takes milliseconds and clients connect often."""

    def __init__(self, broker: Broker, authenticator: Authenticator) -> None:
        self._broker, self._authenticator = broker, authenticator
        self._kept: OrderedDict[tuple[str, str], tuple[bytes, scram.ScramKeys]] = OrderedDict()

    def salt(self, mechanism: str, key_id: str) -> bytes:
        """The same at every time and on every server, whether there is such a key or not."""
        text = f"kafka scram salt\0{mechanism}\0{key_id}"
        secret = self._broker.context.config.session_key
        return hmac.digest(secret, text.encode(), "sha256")[:_SALT_BYTES]

    async def of(self, mechanism: str, key_id: str, network: str) -> scram.ScramKeys:
        """Of a key's secret. An unknown key has keys, too, which nothing can prove.

        Args: network: of the client; addresses take turns, whatever they try.
        """
        live = self._authenticator.principals.key(key_id)
        known = live is not None and not live.disabled
        secret = live.secret if live is not None and known else b"\0unknown"
        place = (mechanism, key_id)
        kept = self._kept.get(place)
        if kept is not None and kept[0] == secret:
            self._kept.move_to_end(place)
            return kept[1]
        salt = self.salt(mechanism, key_id)
        async with self._broker.work.turn(f"scram {network}", patient=True) as turn:
            keys = await turn.off_loop(scram.derive, DIGESTS[mechanism], secret, salt)
        if known:
            self._kept[place] = (secret, keys)
            if len(self._kept) > KEYS_MAX:
                self._kept.popitem(last=False)
        return keys


class Scram:
    """Proof of a key's secret, which is not sent."""

    def __init__(
        self,
        name: str,
        nonce: str,
        authenticator: Authenticator,
        derived: DerivedKeys,
        session: ClientSession,
    ) -> None:
        self._name, self._nonce, self._session = name, nonce, session
        self._authenticator, self._derived = authenticator, derived
        self._first: scram.ClientFirst | None = None
        self._answer = ""

    async def step(self, data: bytes) -> Step:
        """See Mechanism."""
        try:
            if self._first is None:
                return self._begin(scram.read_first(data))
            final = scram.read_final(data)
            scram.check_final(self._first, final, self._nonce)
        except scram.ScramError as error:
            raise ValueError(str(error)) from error
        return await self._end(self._first, final)

    def _begin(self, first: scram.ClientFirst) -> Step:
        if first.authorize_as not in ("", first.name):
            raise ValueError(_ACTS)
        self._first, self._nonce = first, first.nonce + self._nonce
        self._answer = scram.server_first(self._nonce, self._derived.salt(self._name, first.name))
        return Step(self._answer.encode())

    async def _end(self, first: scram.ClientFirst, final: scram.ClientFinal) -> Step:
        authenticator, peer, digest = self._authenticator, self._session.peer, DIGESTS[self._name]
        authenticator.check_attempts(first.name, peer)
        keys = await self._derived.of(self._name, first.name, self._session.network)
        exchange = f"{first.bare},{self._answer},{final.unproven}"
        proven = scram.is_proven(digest, keys, final.proof, exchange)
        found = authenticator.by_proof(first.name, peer, self._name, proven)
        answer = scram.server_final(digest, keys, exchange)
        return Step(answer.encode(), of_key(authenticator, first.name, peer, found))


class OAuthBearer:
    """A bearer token of the identity provider, as REST accepts it."""

    def __init__(self, tokens: TokenCallers, session: ClientSession) -> None:
        self._tokens, self._session = tokens, session

    async def step(self, data: bytes) -> Step:
        """See Mechanism."""
        found = _TOKEN_MESSAGE.fullmatch(data.decode("utf-8", "replace"))
        if found is None:
            raise ValueError("OAUTHBEARER needs n,, and auth=Bearer TOKEN")
        bearers = [_BEARER.fullmatch(pair) for pair in found.group(2).split("\x01")]
        tokens = [bearer.group(1) for bearer in bearers if bearer is not None]
        if len(tokens) != 1:
            raise ValueError("OAUTHBEARER needs one auth=Bearer TOKEN")
        session = self._session
        caller = await self._tokens.by_token(tokens[0], session.peer, private=session.private)
        if found.group(1) not in (None, "", caller.principal.id):
            raise ValueError(_ACTS)

        def check() -> Principal:
            if caller.expires_s <= time.time():
                raise InvalidCredential("the token has expired")
            return caller.check()

        return Step(found=Authenticated(caller.principal, check, caller.expires_s))

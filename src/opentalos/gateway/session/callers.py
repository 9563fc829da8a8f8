"""Callers: who sent a request of REST or of the status page, in one place.

An Authorization header decides alone: a bearer token, or a key. Without one, the cookie of a
session does; without that, the certificate of the connection. Nothing here is used by the Talos
and SDS protocols, which know no cookies.
"""

from typing import Final, NamedTuple

from opentalos.broker.admin.sessions import Opener, Session, SessionService
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.rest.routing.credentials import token_of
from opentalos.gateway.rest.token_callers import TokenCallers
from opentalos.gateway.session.cookies import Cookie, cookie_of, new_cookie
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.model.errors import InvalidCredential
from opentalos.model.identity import Principal

_READS: Final = (b"GET", b"HEAD", b"OPTIONS")
_PROOF: Final = b"x-csrf-token"


class _Opening(NamedTuple):
    """Who logs in, and with what."""

    principal: Principal
    opener: Opener
    key_id: str = ""
    ends_ms: int = 0


class Callers:
    """Finds callers, and opens and ends their sessions.

    Args: tokens: callers with a bearer token; None: only keys are accepted.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        sessions: SessionService,
        tokens: TokenCallers | None = None,
    ) -> None:
        self._authenticator, self._sessions, self._tokens = authenticator, sessions, tokens

    def at_once(self, exchange: Exchange) -> Principal | None:
        """The caller; None: call ``prepare`` before ``caller``. Raises: as ``caller``."""
        if self._tokens is not None and token_of(exchange.headers.get(b"authorization", b"")):
            return None
        return self.caller(exchange)

    async def prepare(self, exchange: Exchange) -> None:
        """Do what ``caller`` cannot wait for. Raises: InvalidCredential, Unavailable."""
        if self._tokens is not None:
            await self._tokens.prepare(exchange)

    def caller(self, exchange: Exchange) -> Principal:
        """The caller. Raises: InvalidCredential, AttemptsExceeded, both audited; PermissionDenied:
        a session's request may be forged."""
        if self._tokens is not None:
            found = self._tokens.caller(exchange)
            if found is not None:
                return found
        session = self.session(exchange)
        if session is not None:
            if exchange.method not in _READS:
                sent = exchange.headers.get(_PROOF, b"").decode("latin-1")
                self._sessions.check_proof(session, sent)
            return session.principal
        return self._without_session(exchange).principal

    def session(self, exchange: Exchange) -> Session | None:
        """The session that the request belongs to; None: none. Raises: InvalidCredential,
        audited."""
        cookie = cookie_of(exchange)
        if cookie is None:
            return None
        try:
            self._authenticator.check_private(exchange.private)
            return self._sessions.find(cookie.value, exchange.peer)
        except InvalidCredential as error:
            self._authenticator.deny(exchange.peer, b"Session:", error)
            raise

    async def log_in(
        self, exchange: Exchange, key: tuple[str, str] | None = None
    ) -> tuple[Session, str]:
        """Open a session; with the value of Set-Cookie. A former session is not ended.

        Args:   key: id and secret; None: whoever sent the request, apart from a session.
        Raises: InvalidCredential, AttemptsExceeded, both audited; Unavailable.
        """
        if key is None:
            await self.prepare(exchange)
            opening = self._opening(exchange)
        else:
            opening = self._by_key(exchange, *key)
        session = await self._sessions.open(
            opening.principal, opening.opener, key_id=opening.key_id, ends_ms=opening.ends_ms
        )
        return session, self._setting(new_cookie(exchange), session)

    async def log_out(self, exchange: Exchange, session: Session) -> str:
        """End a session; the value of Set-Cookie that removes it. Raises: Unavailable."""
        await self._sessions.end(session)
        return (cookie_of(exchange) or new_cookie(exchange)).setting("", 0)

    def renewal(self, exchange: Exchange) -> bytes:
        """The header line that extends the session of a request; often empty."""
        cookie = cookie_of(exchange)
        if cookie is None:
            return b""
        try:
            found = self._sessions.find(cookie.value, exchange.peer)
        except InvalidCredential:
            return b""  # it has ended meanwhile
        session = self._sessions.renewed(found)
        if session is found:
            return b""
        return f"Set-Cookie: {self._setting(cookie, session)}\r\n".encode()

    def current(self, exchange: Exchange) -> Session | None:
        """The session as the reply to this request extends it; None: none."""
        session = self.session(exchange)
        return None if session is None else self._sessions.renewed(session)

    def proof(self, session: Session) -> str:
        """What requests of the session that change something have to send."""
        return self._sessions.forgery_proof(session)

    def check_proof(self, session: Session, sent: str) -> None:
        """Raises: PermissionDenied: the request may be forged."""
        self._sessions.check_proof(session, sent)

    def _setting(self, cookie: Cookie, session: Session) -> str:
        left_s = self._sessions.seconds_left(session)
        return cookie.setting(self._sessions.text(session), left_s)

    def _opening(self, exchange: Exchange) -> _Opening:
        """Raises: InvalidCredential, AttemptsExceeded; both audited."""
        if self._tokens is not None:
            identity = self._tokens.identity(exchange)
            if identity is not None:
                principal, expires_s = identity
                return _Opening(principal, Opener.TOKEN, ends_ms=int(expires_s * 1_000))
        return self._without_session(exchange)

    def _without_session(self, exchange: Exchange) -> _Opening:
        certified = self._authenticator.by_certificate(exchange)
        if certified is not None:
            certificate = exchange.certificate
            ends_ms = int(certificate.expires_s * 1_000) if certificate else 0
            return _Opening(certified, Opener.CERTIFICATE, ends_ms=ends_ms)
        principal, key_id = self._authenticator.by_header(exchange)
        return _Opening(principal, Opener.KEY, key_id)

    def _by_key(self, exchange: Exchange, key_id: str, secret: str) -> _Opening:
        principal = self._authenticator.by_secret(
            key_id, secret, exchange.peer, private=exchange.private
        )
        return _Opening(principal, Opener.KEY, key_id)

"""SessionService: sessions of people who use a browser.

A session is a signed token (wire/session_token.py), so every server of a cluster knows it without
a record. It never says what its holder may do: each use looks up the key or the principal that
opened it, so that a session ends with them and follows every change of role and limits. Only a
logout needs a record (catalog/principals/ended_sessions.py).
"""

import hmac
from dataclasses import dataclass
from enum import StrEnum

from opentalos.broker.admin.token_principals import known_principal
from opentalos.broker.audit.trail import Act
from opentalos.broker.context import BrokerContext
from opentalos.catalog.principals.ended_sessions import EndedSessions, Lifetime
from opentalos.catalog.principals.principals import PrincipalDirectory
from opentalos.model.errors import InvalidCredential, PermissionDenied, TalosError
from opentalos.model.identity import Principal
from opentalos.wire.session_token import SessionKey, SessionToken

_ID_BYTES = 16
_KEY_BYTES = 32
_OVER = "the session is over; log in again"
_LOG_IN, _LOG_OUT = "log in", "log out"


class Opener(StrEnum):
    """What a session was opened with."""

    KEY = "key"
    TOKEN = "token"
    CERTIFICATE = "certificate"


@dataclass(frozen=True, slots=True)
class Session:
    """A session that is in use."""

    token: SessionToken
    principal: Principal


class SessionService:
    """Opens, finds, renews and ends sessions; logins and logouts are audited, failed ones as failed
    authentications."""

    def __init__(
        self, context: BrokerContext, directory: PrincipalDirectory, ended: EndedSessions
    ) -> None:
        self._context, self._directory, self._ended = context, directory, ended
        self._clock, self._audit = context.clock, context.audit
        self._longest_ms = int(context.config.auth.session_s * 1_000)
        self.idle_s = context.config.auth.session_idle_s
        self._made_key: SessionKey | None = None

    @property
    def _key(self) -> SessionKey:
        """Made when it is first needed: without a configured one, sessions end with the process."""
        if self._made_key is None:
            given = self._context.config.session_key or self._clock.token(_KEY_BYTES)
            self._made_key = SessionKey(given)
        return self._made_key

    async def open(
        self, principal: Principal, opener: Opener, *, key_id: str = "", ends_ms: int = 0
    ) -> Session:
        """A session for a caller who has just been authenticated. Audited.

        Args: ends_ms: it ends then at the latest, Unix milliseconds; 0: as configured.
        Raises: ThrottleRejected: too many of the tenant; InvalidCredential: the key is gone.
        """
        await self._context.changes.admit(principal)
        now_ms = self._clock.wall_ms()
        latest_ms = now_ms + self._longest_ms
        token = SessionToken(
            id=self._clock.token(_ID_BYTES).hex(),
            kind=opener.value,
            principal=principal.id,
            key_id=key_id,
            binding=self._binding(key_id),
            opened_ms=now_ms,
            ends_ms=min(latest_ms, ends_ms) if ends_ms else latest_ms,
            idle_ends_ms=now_ms + int(self.idle_s * 1_000),
        )
        details = {"session": token.id[:8], "by": opener.value, "key_id": key_id}
        self._audit.record(principal, Act(_LOG_IN, principal.id, principal.owner_id, details))
        return Session(token, principal)

    def find(self, text: str, peer: str) -> Session:
        """The session of a token that a client sent from this address; in memory.

        Raises: InvalidCredential: it is none, or it is over.
        """
        token = self._key.read(text)
        now_ms = self._clock.wall_ms()
        if now_ms >= min(token.ends_ms, token.idle_ends_ms):
            raise InvalidCredential(_OVER)
        if self._ended.has(token.principal, token.id, token.opened_ms):
            raise InvalidCredential(_OVER)
        if token.kind != Opener.KEY:
            info = known_principal(self._directory, token.principal, "session")
            return Session(token, info.principal)
        live = self._directory.key(token.key_id)
        if live is None or live.disabled or live.principal.id != token.principal:
            raise InvalidCredential(_OVER)
        if not hmac.compare_digest(self._key.binding(live.secret), token.binding):
            raise InvalidCredential(_OVER)
        live.check_use(peer, now_ms)
        return Session(token, live.principal)

    def text(self, session: Session) -> str:
        """What the client sends to use it."""
        return self._key.sign(session.token)

    def renewed(self, session: Session) -> Session:
        """The session, with its idle time extended if half of it has passed."""
        token, idle_ms = session.token, int(self.idle_s * 1_000)
        now_ms = self._clock.wall_ms()
        if token.idle_ends_ms - now_ms > idle_ms // 2:
            return session
        return Session(token._replace(idle_ends_ms=now_ms + idle_ms), session.principal)

    def seconds_left(self, session: Session) -> int:
        """Until it ends unless it is renewed."""
        token = session.token
        left_ms = min(token.ends_ms, token.idle_ends_ms) - self._clock.wall_ms()
        return max(0, left_ms // 1_000)

    def forgery_proof(self, session: Session) -> str:
        """What its requests that change something have to send."""
        return self._key.forgery_proof(session.token.id)

    def check_proof(self, session: Session, sent: str) -> None:
        """Raises: PermissionDenied: the request may be forged by another site's page."""
        wanted = self.forgery_proof(session).encode()
        if not hmac.compare_digest(wanted, sent.encode("utf-8", "replace")):
            raise PermissionDenied(
                "missing or wrong X-CSRF-Token: requests of a session that change something must "
                "send the csrf_token of GET /rest/v1/session"
            )

    async def end(self, session: Session) -> None:
        """End it on all servers. Audited. Raises: ThrottleRejected; as the store."""
        await self._context.changes.admit(session.principal)
        token, principal = session.token, session.principal
        act = Act(_LOG_OUT, principal.id, principal.owner_id, {"session": token.id[:8]})
        try:
            lifetime = Lifetime(token.opened_ms, token.ends_ms)
            await self._ended.add(principal.id, token.id, lifetime)
        except TalosError as error:
            self._audit.record(principal, act, error)
            raise
        self._audit.record(principal, act)

    def _binding(self, key_id: str) -> str:
        if not key_id:
            return ""
        live = self._directory.key(key_id)
        if live is None:
            raise InvalidCredential(_OVER)
        return self._key.binding(live.secret)

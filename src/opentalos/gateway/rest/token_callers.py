"""TokenCallers: callers that send a bearer token of the identity provider instead of a key."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from opentalos.broker.admin.token_principals import TokenPrincipals
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.rest.routing.credentials import token_of
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.model.errors import InvalidCredential
from opentalos.model.identity import Principal, TokenIdentity

_WHO = b"Bearer token:"  # in the audit


class TokenCaller(NamedTuple):
    """``check``: the principal as it is now. Raises: InvalidCredential: it was disabled."""

    principal: Principal
    expires_s: float  # Unix time
    check: Callable[[], Principal]


class Verifier(Protocol):
    """Checks tokens. ``ready`` before ``verify``: it may wait for the issuer's keys."""

    async def ready(self, token: str) -> None:
        """Raises: InvalidCredential, StoreUnavailable."""

    def verify(self, token: str) -> TokenIdentity:
        """Raises: InvalidCredential."""


class TokenCallers:
    """Finds the principal of a token; a call without one is none of its business."""

    def __init__(
        self, verifier: Verifier, principals: TokenPrincipals, authenticator: Authenticator
    ) -> None:
        self._verifier, self._principals = verifier, principals
        self._authenticator = authenticator

    async def prepare(self, exchange: Exchange) -> None:
        """Do what ``caller`` cannot wait for. Raises: InvalidCredential, audited; Unavailable."""
        token = token_of(exchange.headers.get(b"authorization", b""))
        if token is None:
            return
        await self._prepare(token, exchange.peer, private=exchange.private)

    async def _prepare(self, token: str, peer: str, *, private: bool) -> TokenIdentity:
        try:
            self._authenticator.check_private(private)
            await self._verifier.ready(token)
            identity = self._verifier.verify(token)
            await self._principals.ensure(identity)
        except InvalidCredential as error:
            self._authenticator.deny(peer, _WHO, error)
            raise
        return identity

    async def by_token(self, token: str, peer: str, *, private: bool) -> TokenCaller:
        """Who a token is of that another protocol brought.

        Raises: InvalidCredential, audited; Unavailable.
        """
        identity = await self._prepare(token, peer, private=private)
        try:
            principal = self._principals.principal(identity)
        except InvalidCredential as error:
            self._authenticator.deny(peer, _WHO, error)
            raise
        return TokenCaller(
            principal, identity.expires_s, partial(self._principals.principal, identity)
        )

    def caller(self, exchange: Exchange) -> Principal | None:
        """The principal; None: there is no token. Raises: InvalidCredential, audited."""
        found = self.identity(exchange)
        return None if found is None else found[0]

    def identity(self, exchange: Exchange) -> tuple[Principal, float] | None:
        """The principal, and when its token expires, Unix time. Otherwise as ``caller``."""
        token = token_of(exchange.headers.get(b"authorization", b""))
        if token is None:
            return None
        try:
            identity = self._verifier.verify(token)
            return self._principals.principal(identity), identity.expires_s
        except InvalidCredential as error:
            self._authenticator.deny(exchange.peer, _WHO, error)
            raise

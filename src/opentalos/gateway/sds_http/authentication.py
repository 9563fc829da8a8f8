"""Who calls: signatures as Talos has them, and the JSON header of older SDS clients.

A request whose signature covers no names of headers counts once if it changes anything. Only its
arguments show that, so the gateway checks it when they are decoded.

Source: docs/protocol/sds.md#authentication.
"""

from functools import partial
from typing import NamedTuple

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.thrift_http.authentication import Authenticator, Claim
from opentalos.model.errors import InvalidCredential
from opentalos.model.identity import GUEST, Principal
from opentalos.wire._generated.sds import HttpAuthorizationHeader, UserType
from opentalos.wire.sds.signing import (
    HEADER_START,
    NEEDED,
    matches,
    parse_header,
    signed_text,
)

_ELSEWHERE = (UserType.DEV_XIAOMI_SSO, UserType.APP_ACCESS_TOKEN, UserType.APP_XIAOMI_SSO)
_WHO = b"SDS-V1"  # in the audit, of a header that names no key


class Sender(NamedTuple):
    """Who sent a request; ``once``: what ``check_once`` must accept if it changes anything."""

    caller: Principal
    once: Claim | None


class SdsAuthenticator:
    """Turns a request into the principal that signed it."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    def caller(self, exchange: Exchange) -> Sender:
        """Who sent the request. Raises: as ``Authenticator.caller``."""
        value = exchange.headers.get(b"authorization", b"")
        if not value.startswith(HEADER_START):
            return Sender(self._authenticator.caller(exchange), None)
        try:
            if self._authenticator.sds_v1 == "off":
                raise InvalidCredential("signatures of version SDS-V1 are not accepted here")
            header = parse_header(value)
            if header.userType in _ELSEWHERE:
                raise InvalidCredential("single sign-on and access tokens are not accepted here")
            if not header.secretKeyId:
                return Sender(self._guest(), None)
            if header.secretKey and not exchange.secure:
                raise InvalidCredential("a secret in the header needs TLS")
            text = b"" if header.secretKey else signed_text(header, exchange.headers)
        except InvalidCredential as error:
            self._authenticator.deny(exchange.peer, _WHO, error)
            raise
        if header.secretKey:
            key_id, secret = header.secretKeyId, header.secretKey
            found = self._authenticator.by_secret(
                key_id, secret, exchange.peer, private=exchange.private
            )
            return Sender(found, None)
        claim = _claim(header)
        found = self._authenticator.by_claim(exchange, claim, partial(matches, header, text))
        repeatable = claim.request_id is not None or self._authenticator.sds_v1 == "repeat"
        return Sender(found, None if repeatable else claim)

    def check_once(self, exchange: Exchange, claim: Claim) -> None:
        """Accept a request that changes something once. Raises: InvalidCredential, audited."""
        self._authenticator.check_unsigned_names(exchange, claim)

    def _guest(self) -> Principal:
        if not self._authenticator.anonymous:
            raise InvalidCredential("callers without a key are not accepted here")
        return GUEST


def _claim(header: HttpAuthorizationHeader) -> Claim:
    """A header that signs more than what is needed may sign a request id among it.

    The signature covers the values of headers and not their names, so a copy can call the id by
    another name; it cannot change how many values there are, and its signature is the same.
    """
    signature = (header.signature or "").encode()
    more = len(header.signedHeaders or ()) > len(NEEDED)
    once = signature if more else None
    return Claim(header.secretKeyId or "", signature, once, names_signed=False)

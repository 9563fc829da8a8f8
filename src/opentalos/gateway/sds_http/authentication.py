"""Who calls: signatures as Talos has them, and the JSON header of older SDS clients.

Source: docs/protocol/sds.md#authentication.
"""

from functools import partial

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.thrift_http.authentication import Authenticator, Claim
from opentalos.model.errors import InvalidCredential
from opentalos.model.identity import GUEST, Principal
from opentalos.wire._generated.sds import HttpAuthorizationHeader, UserType
from opentalos.wire.sds.signing import (
    HEADER_START,
    REQUEST_ID,
    matches,
    parse_header,
    signed_text,
)

_ELSEWHERE = (UserType.DEV_XIAOMI_SSO, UserType.APP_ACCESS_TOKEN, UserType.APP_XIAOMI_SSO)
_WHO = b"SDS-V1"  # in the audit, of a header that names no key


class SdsAuthenticator:
    """Turns a request into the principal that signed it."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    def caller(self, exchange: Exchange) -> Principal:
        """The principal. Raises: as ``Authenticator.caller``."""
        value = exchange.headers.get(b"authorization", b"")
        if not value.startswith(HEADER_START):
            return self._authenticator.caller(exchange)
        try:
            header = parse_header(value)
            if header.userType in _ELSEWHERE:
                raise InvalidCredential("single sign-on and access tokens are not accepted here")
            if not header.secretKeyId:
                return self._guest()
            if header.secretKey and not exchange.secure:
                raise InvalidCredential("a secret in the header needs TLS")
            text = b"" if header.secretKey else signed_text(header, exchange.headers)
        except InvalidCredential as error:
            self._authenticator.deny(exchange.peer, _WHO, error)
            raise
        if header.secretKey:
            key_id, secret = header.secretKeyId, header.secretKey
            return self._authenticator.by_secret(
                key_id, secret, exchange.peer, private=exchange.private
            )
        claim = _claim(exchange, header, header.secretKeyId)
        return self._authenticator.by_claim(exchange, claim, partial(matches, header, text))

    def _guest(self) -> Principal:
        if not self._authenticator.anonymous:
            raise InvalidCredential("callers without a key are not accepted here")
        return GUEST


def _claim(exchange: Exchange, header: HttpAuthorizationHeader, key_id: str) -> Claim:
    signed = {name.lower() for name in header.signedHeaders or ()}
    request_id = exchange.headers.get(REQUEST_ID.encode()) if REQUEST_ID in signed else None
    return Claim(key_id, (header.signature or "").encode(), request_id)

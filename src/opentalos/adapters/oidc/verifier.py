"""TokenVerifier: checks signature, issuer, audience and times of a token, and reads its claims."""

import hashlib
import time
from typing import Any

import jwt
from jwt.exceptions import ExpiredSignatureError, ImmatureSignatureError, PyJWTError

from opentalos.adapters.oidc.issuer_keys import IssuerKeys
from opentalos.adapters.oidc.settings import OidcSettings
from opentalos.model.errors import InvalidCredential
from opentalos.model.identity import TokenIdentity

VERIFIED_MAX = 10_000  # tokens whose result is kept
_CLAIM_CHARS_MAX = 128


class TokenVerifier:
    """Verifies tokens with the issuer's keys; keeps results until a token ends or keys change."""

    def __init__(self, settings: OidcSettings, keys: IssuerKeys) -> None:
        self._settings, self._keys = settings, keys
        self._algorithms = settings.algorithms.split()
        self._verified: dict[bytes, TokenIdentity] = {}
        self._version = keys.version

    async def ready(self, token: str) -> None:
        """Wait until the token's key is known, if the issuer has it.

        Raises: InvalidCredential: it is no token; StoreUnavailable: the issuer does not answer.
        """
        await self._keys.ready(self._key_id(token))

    def verify(self, token: str) -> TokenIdentity:
        """The claims of a valid token. Raises: InvalidCredential."""
        if self._version != self._keys.version:
            self._verified.clear()
            self._version = self._keys.version
        digest = hashlib.sha256(token.encode()).digest()
        known = self._verified.get(digest)
        if known is not None and time.time() < known.expires_s + self._settings.leeway_s:
            # Keys that became too old verify nothing any more, not even what they did before.
            if self._keys.get(self._key_id(token)) is not None:
                return known
        identity = self._decoded(token)
        if len(self._verified) >= VERIFIED_MAX:
            self._verified.clear()
        self._verified[digest] = identity
        return identity

    def _key_id(self, token: str) -> str:
        try:
            header = jwt.get_unverified_header(token)
        except PyJWTError as error:
            raise InvalidCredential("invalid token: it is no signed JWT") from error
        if header.get("alg") not in self._algorithms:
            raise InvalidCredential(
                f"invalid token: its algorithm is none of {', '.join(self._algorithms)}"
            )
        return str(header.get("kid", ""))

    def _decoded(self, token: str) -> TokenIdentity:
        settings = self._settings
        key = self._keys.get(self._key_id(token))
        if key is None:
            raise InvalidCredential("invalid token: the issuer has no key of that id")
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=self._algorithms,
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=settings.leeway_s,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (ExpiredSignatureError, ImmatureSignatureError) as error:
            raise InvalidCredential(f"invalid token: {error}; get another one") from error
        except PyJWTError as error:
            raise InvalidCredential(f"invalid token: {error}") from error
        organisation = settings.organisation_claim
        return TokenIdentity(
            _text(claims, settings.principal_claim),
            _text(claims, organisation) if organisation else None,
            float(claims["exp"]),
        )


def _text(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _CLAIM_CHARS_MAX:
        raise InvalidCredential(
            f"invalid token: claim {name} must be 1 to {_CLAIM_CHARS_MAX} characters"
        )
    return value

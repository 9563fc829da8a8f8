"""Key id and secret of a REST call: HTTP basic, or the same pair as a bearer token."""

import base64
import binascii
from collections.abc import Mapping

from opentalos.gateway.rest.routing.origin import from_browser
from opentalos.model.errors import InvalidCredential

_BASIC = b'WWW-Authenticate: Basic realm="talos", charset="UTF-8"\r\n'
_BEARER = b'WWW-Authenticate: Bearer realm="talos"\r\n'


def challenge_of(headers: Mapping[bytes, bytes]) -> bytes:
    """Header lines of a reply with status 401. A browser is not asked for Basic: it would store
    the key and add it to requests of other sites' pages."""
    return _BEARER if from_browser(headers) else _BASIC + _BEARER


_TOKEN_DOTS = 2


def credentials_of(authorization: bytes) -> tuple[str, str]:
    """Key id and secret. Raises: InvalidCredential."""
    scheme, _, value = authorization.partition(b" ")
    value = value.strip()
    match scheme.lower():
        case b"basic":
            pair = _decoded(value, b"+/")
        case b"bearer":
            pair = _decoded(value + b"=" * (-len(value) % 4), b"-_")
        case _:
            raise InvalidCredential(
                "missing credentials; send key id and secret as HTTP basic or bearer authentication"
            )
    key_id, _, secret = pair.partition(":")
    return key_id, secret


def token_of(authorization: bytes) -> str | None:
    """A signed token sent as bearer; None: there is none, but perhaps a key id and a secret."""
    scheme, _, value = authorization.partition(b" ")
    value = value.strip()
    # Base64 has no dots; a signed JWT has two.
    if scheme.lower() != b"bearer" or value.count(b".") != _TOKEN_DOTS or not value.isascii():
        return None
    return value.decode()


def _decoded(value: bytes, alphabet: bytes) -> str:
    try:
        return base64.b64decode(value, alphabet, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise InvalidCredential("invalid credentials: not base64 of KEY_ID:SECRET") from error

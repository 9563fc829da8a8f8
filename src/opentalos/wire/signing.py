"""Request signing: the string to sign, the Authorization header and the signature."""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple


class Scheme(Enum):
    """Authorization schemes. Source: talos-http.md section 2."""

    GALAXY_V2 = "Galaxy-V2"
    GALAXY_V3 = "Galaxy-V3"
    OAUTH = "OAuth"
    SSO = "SSO"
    GUEST = "Guest"


class Authorization(NamedTuple):
    """A parsed Authorization header; ``signature`` is empty for unsigned schemes."""

    scheme: Scheme
    key_id: str
    signature: str = ""
    secret: str = ""  # SSO only: the secret itself travels
    sid: str = ""  # SSO only

    @property
    def signed(self) -> bool:
        """Whether the scheme carries a signature."""
        return self.scheme not in (Scheme.SSO, Scheme.GUEST)


class HmacState:
    """HMAC-SHA1 of one secret, its inner and outer states computed once.

    Source: HOTPATH.md, 0.7 us a signature against 1.7 us from the secret.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: bytes) -> None:
        raise NotImplementedError

    def signature(self, text: bytes) -> bytes:
        """Base64 of the HMAC, as the header carries it."""
        raise NotImplementedError

    def matches(self, text: bytes, signature: str) -> bool:
        """Whether ``signature`` is that of ``text``, compared in constant time."""
        raise NotImplementedError


def parse_authorization(value: str) -> Authorization:
    """Parse an Authorization header. Raises: InvalidCredential."""
    raise NotImplementedError


def string_to_sign(method: str, target: str, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The bytes a signature covers.

    Args:    target: path with query string; headers: all of the request in order, repeated ones
             as often as they came; names are compared without case.
    Source:  talos-http.md section 3.
    """
    raise NotImplementedError

"""The cookie of a session.

Over TLS its name has the prefix ``__Host-``, with which browsers accept it only from this host
itself, so that no neighbouring subdomain can plant one.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from opentalos.gateway.http.exchange import Exchange

PLAIN: Final = "opentalos_session"
SECURE: Final = "__Host-opentalos_session"
_COOKIES_MAX: Final = 64  # of a request that are read


class Cookie(NamedTuple):
    """A cookie of a session, as sent."""

    name: str
    value: str

    def setting(self, text: str, seconds: int) -> str:
        """Value of Set-Cookie that sets it; no seconds: that removes it."""
        secure = "; Secure" if self.name == SECURE else ""
        rules = f"Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}"
        return f"{self.name}={text}; {rules}"


def cookie_of(exchange: Exchange) -> Cookie | None:
    """The session's cookie; None: there is none, or other credentials, which precede it."""
    sent = exchange.headers.get(b"cookie")
    if sent is None or exchange.headers.get(b"authorization"):
        return None
    # The server that forwarded a request has checked how it came.
    names = (SECURE,) if exchange.secure and not exchange.forwarder else (SECURE, PLAIN)
    found = _cookies(sent)
    return next((Cookie(name, found[name]) for name in names if name in found), None)


def new_cookie(exchange: Exchange) -> Cookie:
    """The cookie to set for a login by this request."""
    return Cookie(SECURE if exchange.secure else PLAIN, "")


def _cookies(sent: bytes) -> Mapping[str, str]:
    pairs = sent.decode("latin-1").split(";", _COOKIES_MAX)[:_COOKIES_MAX]
    found: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.strip().partition("=")
        found.setdefault(name, value)
    return found

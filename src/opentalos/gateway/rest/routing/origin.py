"""Rejects requests that a browser sends on behalf of another site (cross-site request forgery).

A browser adds credentials that it has stored to every request, whoever's page caused it, and says
where the page came from: in ``Sec-Fetch-Site``, or, for plain HTTP beyond loopback, only in
``Origin``. Programs send neither, so nothing changes for them.
"""

from collections.abc import Mapping
from typing import Final

from opentalos.model.errors import PermissionDenied

_READS: Final = (b"GET", b"HEAD", b"OPTIONS")
_OWN_SITES: Final = (b"same-origin", b"none")  # none: the user typed the address
_DEFAULT_PORTS: Final = {b"http": b":80", b"https": b":443"}


def check_origin(method: bytes, headers: Mapping[bytes, bytes], *, session: bool = False) -> None:
    """Of a request that changes something or has credentials that a browser adds by itself.

    Args:   session: it has the cookie of a session.
    Raises: PermissionDenied: a page of another site sent it.
    """
    ambient = session or headers.get(b"authorization", b"")[:6].lower() == b"basic "
    if method in _READS and not ambient:
        return
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        allowed = site.strip().lower() in _OWN_SITES
    else:
        origin = headers.get(b"origin")
        allowed = origin is None or _is_own(origin, headers.get(b"host", b""))
    if not allowed:
        raise PermissionDenied(
            "a page of another site sent this request; open the page from this server"
        )


def from_browser(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser sent it, which would ask its user for a password if it is challenged."""
    return b"sec-fetch-mode" in headers or b"text/html" in headers.get(b"accept", b"").lower()


def _is_own(origin: bytes, host: bytes) -> bool:
    """Whether the origin is this server, as the browser addressed it; ``null`` never is."""
    scheme, _, sender = origin.strip().lower().partition(b"://")
    port = _DEFAULT_PORTS.get(scheme)
    if port is None or not sender:
        return False
    return sender.removesuffix(port) == host.strip().lower().removesuffix(port)

"""Which servers accept a body's MAC in place of its MD5; no I/O."""

from collections.abc import Mapping
from typing import Final

from opentalos.wire.signing import MAC_BODY_BYTES_MIN, MAC_OFFER

_SERVERS_MAX: Final = 10_000  # remembered


class ContentMacs:
    """What servers said in replies to large requests. Official servers never offer it."""

    def __init__(self) -> None:
        self._servers: dict[str, bool] = {}  # by URL; False: refused, for good

    def accepted(self, url: str, body_bytes: int) -> bool:
        """Whether to send a MAC of a body of this size."""
        return body_bytes >= MAC_BODY_BYTES_MIN and self._servers.get(url, False)

    def heard(self, url: str, body_bytes: int, headers: Mapping[str, str]) -> None:
        """Note what a reply offers."""
        if body_bytes < MAC_BODY_BYTES_MIN or url in self._servers or MAC_OFFER not in headers:
            return
        if len(self._servers) < _SERVERS_MAX:
            self._servers[url] = True

    def refused(self, url: str) -> None:
        """The server, or another one that it asked, knows no MAC: use the MD5 from now on."""
        self._servers[url] = False

"""Signs the headers of a request, with the time corrected to the server's clock.

Source: docs/protocol/wire.md, docs/protocol/signatures.md.
"""

import hashlib
import secrets
import sys
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Final

import opentalos
from opentalos.wire.signing import CONTENT_MAC, HmacState, string_to_sign
from opentalos.wire.thrift.message import ThriftProtocol

TIMESTAMP: Final = "X-Xiaomi-Timestamp"
REQUEST_ID: Final = "X-Request-Id"  # identifies the request in the server's log
_ATTACHED: Final = "Attached-Info"
_ATTACHED_SIGNED: Final = "x-xiaomi-attached-info"
_CONTENT_TYPE: Final = ThriftProtocol.COMPACT.value
_SERVER_SECONDS_MAX: Final = 1 << 37  # far below the largest date
_PYTHON: Final = ".".join(map(str, sys.version_info[:2]))
_AGENT: Final = f"OpenTalos-SDK/{opentalos.__version__} Python/{_PYTHON}"


class Signer:
    """Signs requests with one key.

    Args: wall_s: local clock; may be skewed or jump. acting_for: the principal that an
    administrator acts for, which is signed as well.
    """

    def __init__(
        self,
        key_id: str,
        secret: str,
        wall_s: Callable[[], float] = time.time,
        acting_for: str = "",
    ) -> None:
        self._acting_for = acting_for
        self._prefix = f"Galaxy-V3 {key_id}:"
        self._secret = secret.encode()
        self._hmac = HmacState(self._secret)
        self._wall_s = wall_s
        self.offset_s = 0  # server clock minus local clock

    def headers(self, path: str, body: bytes, *, by_mac: bool = False) -> dict[str, str]:
        """All headers of one POST. Each has a unique id, so that a server can reject a replay.

        ``by_mac``: the server accepts CONTENT_MAC in place of the body's MD5.
        """
        now_s = int(self._wall_s()) + self.offset_s
        request_id = secrets.token_hex(16)
        signed = {
            **self._covering(body, request_id, by_mac=by_mac),
            "x-xiaomi-date": formatdate(now_s, usegmt=True),
            "x-xiaomi-request-id": request_id,
            TIMESTAMP.lower(): str(now_s),
        }
        unsigned = {}
        if self._acting_for:
            unsigned[_ATTACHED] = signed[_ATTACHED_SIGNED] = self._acting_for
        covered = {name.encode(): value.encode() for name, value in signed.items()}
        covered[b"content-type"] = _CONTENT_TYPE.encode()
        text = string_to_sign(b"POST", path.encode(), b"", covered)
        signature = self._hmac.signature(text).decode()
        return {
            "Content-Type": _CONTENT_TYPE,
            "User-Agent": _AGENT,
            REQUEST_ID: request_id,
            **unsigned,
            **signed,
            "Authorization": self._prefix + signature,
        }

    def _covering(self, body: bytes, request_id: str, *, by_mac: bool) -> dict[str, str]:
        """The header that puts the body under the signature."""
        if not by_mac:
            digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
            return {"x-xiaomi-content-md5": digest}
        # Loaded late: 19 ms, and only large bodies need it.
        from opentalos.wire.content_mac import content_mac

        return {CONTENT_MAC: content_mac(self._secret, request_id.encode(), body).decode()}

    def now_ms(self) -> int:
        """Unix milliseconds by the server's clock."""
        return int(self._wall_s() * 1000) + self.offset_s * 1000

    def correct(self, header: str | None) -> bool:
        """Adopt the server's time from the header of a reply with status 412 (clock skewed).

        Returns: whether the header has a valid time, so that a retry can succeed.
        """
        if header is None or not header.isascii() or not header.isdigit():
            return False
        server_s = int(header[:20])
        if server_s > _SERVER_SECONDS_MAX:
            return False
        self.offset_s = server_s - int(self._wall_s())
        return True

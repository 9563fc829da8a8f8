"""PushPort: what programs push to the agent, and who may."""

import hmac
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

from opentalos.adapters.private_files import read_credential
from opentalos.agent.pushed_points import PushedPoints, TooManySeries
from opentalos.gateway.http.exchange import Exchange
from opentalos.model.address import is_loopback
from opentalos.model.errors import ConfigError, TalosError
from opentalos.wire.metrics.falcon import decode_push

KEY_CHARS_MIN: Final = 20
_BROWSER_HEADERS: Final = (b"origin", b"sec-fetch-site", b"sec-fetch-mode")
_BEARER: Final = b"bearer "


def read_push_key(path: Path | None, host: str) -> bytes:
    """The key that pushes need; empty: none, which only a loopback address may do without.

    Raises: ConfigError: no key for another address; a file that others can read; a short key.
    """
    if path is None:
        if host != "localhost" and not is_loopback(host):
            raise ConfigError(
                f"cannot listen on {host} without a key for pushes: every machine that reaches it "
                "could push; pass --push-key-file, or listen on 127.0.0.1"
            )
        return b""
    key = read_credential(path).encode()
    if len(key) < KEY_CHARS_MIN:
        raise ConfigError(
            f"the key in {path} has {len(key)} characters and may be guessed; use at least "
            f"{KEY_CHARS_MIN}"
        )
    return key


class PushPort:
    """``POST /v1/push``: 200, or 4xx with the reason why the push was rejected.

    Programs on this machine push without a key. A browser on it runs pages of strangers, so what
    a browser sends is refused: each of its POSTs has an ``Origin``, which no program sends.
    """

    def __init__(self, points: PushedPoints, key: bytes = b"") -> None:
        self._points, self._key = points, key
        self.refused = 0  # since the start

    def serve(self, exchange: Exchange) -> None:
        """Handle one push."""
        if exchange.method != b"POST":
            exchange.reply_text(405, "use POST", b"Allow: POST\r\n")
        elif any(name in exchange.headers for name in _BROWSER_HEADERS):
            self._refuse(exchange, 403, "a page in a browser cannot push; push from a program")
        elif self._key and not hmac.compare_digest(_key_of(exchange), self._key):
            text = (
                "could not accept the push: the key of the agent is missing or wrong; send "
                '"Authorization: Bearer KEY", or put ?key=KEY at the end of the URL'
            )
            self._refuse(exchange, 401, text)
        else:
            self._take(exchange)

    def _take(self, exchange: Exchange) -> None:
        try:
            self._points.add(decode_push(exchange.body))
        except TooManySeries as error:
            self._refuse(exchange, 429, str(error))
        except TalosError as error:
            self._refuse(exchange, 400, str(error))
        else:
            exchange.reply_text(200, "success")

    def _refuse(self, exchange: Exchange, status: int, text: str) -> None:
        self.refused += 1
        exchange.reply_text(status, text)


def _key_of(exchange: Exchange) -> bytes:
    """The header counts; official clients cannot send one, but take any URL."""
    header = exchange.headers.get(b"authorization", b"")
    if header[: len(_BEARER)].lower() == _BEARER:
        return header[len(_BEARER) :].strip()
    try:
        return parse_qs(exchange.query, max_num_fields=8).get(b"key", [b""])[0]
    except ValueError:  # more fields than that
        return b""

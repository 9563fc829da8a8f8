"""``GET /docs`` and the files of its page, which are part of the package.

Everybody may read them, as they may read the OpenAPI document; calls that the page makes carry the
key that its user enters, which stays in the page's memory. The browser loads nothing from other
hosts and runs no script but these files: the policy of the page says so.

Swagger UI 5.18.2 (Apache-2.0) is stored as it is sent, compressed: every browser takes gzip.
"""

from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from opentalos.gateway.http.exchange import Exchange, Handler
from opentalos.gateway.http.reply_format import head

PATH: Final = b"/docs"
_FOLDER: Final = Path(__file__).parent
_SCRIPT: Final = b"text/javascript; charset=utf-8"
_FILES: Final = {
    "swagger-ui-bundle.js": _SCRIPT,
    "swagger-ui.css": b"text/css; charset=utf-8",
    "start.js": _SCRIPT,
}
_STORED: Final = ".gz"
_PAGE: Final = b"""<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<link rel="icon" href="data:,"><title>OpenTalos REST</title>
<link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="api"></div><noscript>This page needs scripts; the description itself is
<a href="/rest/v1/openapi.json">openapi.json</a>.</noscript>
<script src="/docs/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script>
</body></html>
"""
# Swagger UI sets styles of elements, and its pictures are in its style sheet.
_HEADERS: Final = (
    b"Cache-Control: no-cache\r\n"
    b"Content-Security-Policy: default-src 'none'; script-src 'self'; "
    b"style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    b"X-Content-Type-Options: nosniff\r\n"
    b"Referrer-Policy: no-referrer\r\n"
)
_GZIP: Final = b"Content-Encoding: gzip\r\n"


def routes() -> Mapping[bytes, Handler]:
    """Handlers by path."""
    files = {PATH + b"/" + name.encode(): partial(_serve_file, name) for name in _FILES}
    return {PATH: _serve_page, **files}


def _serve_page(exchange: Exchange) -> None:
    if _readable(exchange):
        exchange.reply(head(200, b"text/html; charset=utf-8"), _PAGE, _HEADERS)


def _serve_file(name: str, exchange: Exchange) -> None:
    if _readable(exchange):
        content, coded = _content(name)
        extra = _HEADERS + (_GZIP if coded else b"")
        exchange.reply(head(200, _FILES[name]), content, extra)


@lru_cache(maxsize=len(_FILES))
def _content(name: str) -> tuple[bytes, bool]:
    """A file, read at its first request, and whether it is compressed."""
    stored = _FOLDER / (name + _STORED)
    if stored.exists():
        return stored.read_bytes(), True
    return (_FOLDER / name).read_bytes(), False


def _readable(exchange: Exchange) -> bool:
    """Whether the method reads; another one has been refused."""
    if exchange.method in (b"GET", b"HEAD"):
        return True
    exchange.reply_text(405, "send GET", b"Allow: GET, HEAD\r\n")
    return False

"""Scripts and styles of the pages, at URLs that contain a digest of the content.

A browser keeps them for good, and a new version has another URL. They are read at their first
request and kept compressed.
"""

import gzip
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from opentalos.gateway.console.page import ROOT
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.reply_format import head

FOLDER: Final = Path(__file__).parent / "static"
URL: Final = ROOT + "static/"
_TYPES: Final = {
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_DIGEST_CHARS: Final = 12
_FILES_MAX: Final = 64
_KEPT: Final = b"Cache-Control: public, max-age=31536000, immutable\r\n"
_HEADERS: Final = (
    b"Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n"
    b"X-Content-Type-Options: nosniff\r\n"
    b"Vary: Accept-Encoding\r\n"
)


class _File(NamedTuple):
    content: bytes
    compressed: bytes
    content_type: bytes
    digest: str


def file_url(name: str) -> str:
    """The URL of a file below ``static``, such as ``console.css``. Raises: KeyError: none."""
    file = _files()[name]
    stem, dot, suffix = name.rpartition(".")
    return f"{URL}{stem}.{file.digest}{dot}{suffix}"


def serve(exchange: Exchange) -> None:
    """Handler of the files, for everybody: they are those of the package."""
    if exchange.method not in (b"GET", b"HEAD"):
        exchange.reply_text(405, "send GET", b"Allow: GET, HEAD\r\n")
        return
    wanted = exchange.path.decode("latin-1")[len(URL) :]
    stem, _, suffix = wanted.rpartition(".")
    stem, _, digest = stem.rpartition(".")
    file = _files().get(f"{stem}.{suffix}")
    if file is None or digest != file.digest:
        exchange.reply_text(404, "no such file; reload the page", b"Cache-Control: no-store\r\n")
        return
    coded = b"gzip" in exchange.headers.get(b"accept-encoding", b"")
    extra = _KEPT + _HEADERS + (b"Content-Encoding: gzip\r\n" if coded else b"")
    exchange.reply(head(200, file.content_type), file.compressed if coded else file.content, extra)


@lru_cache(maxsize=1)
def _files() -> dict[str, _File]:
    found: dict[str, _File] = {}
    paths = sorted(path for path in FOLDER.rglob("*") if path.suffix in _TYPES)
    for path in paths[:_FILES_MAX]:
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARS]
        compressed = gzip.compress(content, mtime=0)
        name = path.relative_to(FOLDER).as_posix()
        found[name] = _File(content, compressed, _TYPES[path.suffix], digest)
    return found

"""Bytes of an HTTP reply's head."""

import re
from email.utils import formatdate
from functools import lru_cache

TEXT = b"text/plain; charset=utf-8"

_REASONS = {
    100: b"Continue",
    200: b"OK",
    201: b"Created",
    204: b"No Content",
    303: b"See Other",
    400: b"Bad Request",
    401: b"Unauthorized",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    409: b"Conflict",
    412: b"Precondition Failed",
    413: b"Content Too Large",
    415: b"Unsupported Media Type",
    422: b"Unprocessable Content",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    501: b"Not Implemented",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
}

_REASON_BYTES_MAX = 200  # of a text in the status line
_UNSAYABLE = re.compile(rb"[^\x20-\x7e]")

RETRY_AFTER_S = 1  # of replies to requests that may be repeated
RETRY_AFTER = b"Retry-After: %d\r\n" % RETRY_AFTER_S
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@lru_cache(maxsize=256)
def head(status: int, content_type: bytes, lines: bytes = b"") -> bytes:
    """Head up to the number of ``Content-Length``; names in canonical capitals.

    ``lines``: further complete lines of the head.

    The Python client searches for the exact ``Content-Type``.

    Source: docs/protocol/wire.md#content-types.
    """
    return _head(status, content_type, _REASONS.get(status, b"Status"), lines)


def head_saying(status: int, content_type: bytes, reason: str) -> bytes:
    """``head`` with a text in place of the status's own words, as far as it can stand there."""
    said = _UNSAYABLE.sub(b"?", reason.encode("ascii", "replace"))
    return _head(status, content_type, said[:_REASON_BYTES_MAX])


def _head(status: int, content_type: bytes, reason: bytes, lines: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d %b\r\nContent-Type: %b\r\n%bContent-Length: " % (
        status,
        reason,
        content_type,
        lines,
    )


def stream_head(content_type: bytes, chunked: bool) -> bytes:
    """Head of a reply whose length is not known before, up to the line break before ``Date``."""
    how = b"\r\nTransfer-Encoding: chunked" if chunked else b""
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b%b" % (content_type, how)


def date_line(wall_s: float) -> bytes:
    """The ``Date`` line, with the line breaks that end the line before it and itself."""
    return b"\r\nDate: " + formatdate(wall_s, usegmt=True).encode("ascii") + b"\r\n"

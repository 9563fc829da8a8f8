"""What a request names, and why one cannot be read."""

from httptools import HttpParserError, parse_url

REASON_CHARS_MAX = 1_000


def reason_of(error: HttpParserError) -> str:
    """The parser's reason for a client; it may be none, or the whole request."""
    text = str(error)
    return text if text and len(text) < REASON_CHARS_MAX else "unreadable"


def origin_form(url: bytes) -> bytes:
    """Path and query of a request target that names a host as well, or ``*``."""
    try:
        parsed = parse_url(url)
    except HttpParserError:
        return b"*"
    return (parsed.path or b"/") + (b"?" + parsed.query if parsed.query else b"")

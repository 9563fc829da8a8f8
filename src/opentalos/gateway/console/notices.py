"""Cookies of the console itself: a notice for the next page, and the theme. Neither is a secret."""

from typing import Final
from urllib.parse import quote, unquote

from opentalos.gateway.http.exchange import Exchange

NOTICE: Final = "console_notice"
THEME: Final = "console_theme"  # written by the button of the pages
THEMES: Final = ("light", "dark")
_NOTICE_CHARS_MAX: Final = 400
_NOTICE_S: Final = 30
_COOKIES_MAX: Final = 64
_RULES: Final = "Path=/console/; HttpOnly; SameSite=Strict"


def setting(notice: str) -> bytes:
    """The header line that hands a notice to the next page."""
    text = quote(notice[:_NOTICE_CHARS_MAX])
    return f"Set-Cookie: {NOTICE}={text}; {_RULES}; Max-Age={_NOTICE_S}\r\n".encode()


def of(exchange: Exchange) -> tuple[str, bytes]:
    """The notice, and the header line that removes it; empty if there is none."""
    sent = _cookie(exchange, NOTICE)
    if not sent or b"hx-request" in exchange.headers:
        return "", b""
    clearing = f"Set-Cookie: {NOTICE}=; {_RULES}; Max-Age=0\r\n".encode()
    return unquote(sent)[:_NOTICE_CHARS_MAX], clearing


def theme_of(exchange: Exchange) -> str:
    """The theme that the user selected; empty: that of the system."""
    sent = _cookie(exchange, THEME)
    return sent if sent in THEMES else ""


def _cookie(exchange: Exchange, wanted: str) -> str:
    pairs = exchange.headers.get(b"cookie", b"").decode("latin-1").split(";", _COOKIES_MAX)
    for pair in pairs:
        name, _, value = pair.strip().partition("=")
        if name == wanted:
            return value
    return ""

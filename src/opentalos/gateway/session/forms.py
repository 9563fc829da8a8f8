"""Forms of the pages for people: log in, log out. They need no script."""

import base64
import hashlib
from html import escape
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from opentalos import __version__
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.rest.routing.errors import UnsupportedMediaType
from opentalos.model.errors import BadRequest, RequestTooLarge

BODY_BYTES_MAX: Final = 4_096
_FIELDS_MAX: Final = 8
_TYPE: Final = b"application/x-www-form-urlencoded"
STYLE: Final = """
body{font:15px/1.4 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;
color:#222;background:#fff}
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
p{color:#555;margin:.3rem 0}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.35rem .8rem .35rem 0;border-bottom:1px solid #ddd;
vertical-align:top;overflow-wrap:anywhere}
th{font-weight:600;color:#555;white-space:nowrap}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.bad{color:#a40000;font-weight:600}
@media(prefers-color-scheme:dark){body{background:#181a1b;color:#ddd}p,th{color:#aaa}
th,td{border-color:#444}.bad{color:#ff7b7b}}
label{display:block;margin:.8rem 0}input{display:block;width:22rem;max-width:100%}
"""
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest())
HEADERS: Final = (
    b"Cache-Control: no-store\r\n"
    b"Content-Security-Policy: default-src 'none'; style-src 'sha256-%b'; img-src data:; "
    b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'\r\n"
    b"X-Content-Type-Options: nosniff\r\n"
    b"Referrer-Policy: no-referrer\r\n" % _STYLE_HASH
)


class Form(NamedTuple):
    """What a form sent. ``log_out``: the session's proof, of the form to log out; or empty."""

    key_id: str = ""
    secret: str = ""
    log_out: str = ""


def form_of(exchange: Exchange) -> Form:
    """Raises: BadRequest, RequestTooLarge, UnsupportedMediaType."""
    content_type = exchange.headers.get(b"content-type", b"").partition(b";")[0]
    if content_type.strip().lower() != _TYPE:
        raise UnsupportedMediaType(f"unsupported content type; send {_TYPE.decode()}")
    if exchange.body_bytes > BODY_BYTES_MAX:
        raise RequestTooLarge(
            f"the form has {exchange.body_bytes:,} bytes; the limit is {BODY_BYTES_MAX:,}"
        )
    try:
        sent = dict(parse_qsl(exchange.body.decode(), errors="strict", max_num_fields=_FIELDS_MAX))
    except ValueError as error:
        raise BadRequest("invalid form: send percent-encoded UTF-8, a few fields") from error
    return Form(**{name: sent.get(name, "") for name in Form._fields})


def start(title: str, more: str = "") -> list[str]:
    """The lines of a page up to its body, apart from texts that are escaped already."""
    return [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        *([more] if more else ()),
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f'<link rel="icon" href="data:,"><title>{title}</title>',
        f"<style>{STYLE}</style></head><body>",
        f"<h1>OpenTalos {escape(__version__)}</h1>",
    ]


def login_page(reason: str = "") -> str:
    """The form to log in; with the reason why the last attempt failed."""
    lines = start("OpenTalos: log in")
    if reason:
        lines.append(f'<p class="bad">{escape(reason)}</p>')
    lines += [
        '<form method="post" action="/">',
        '<label>Key id<input name="key_id" autocomplete="username" required></label>',
        '<label>Secret<input name="secret" type="password" autocomplete="current-password" '
        "required></label>",
        "<button>Log in</button></form></body></html>\n",
    ]
    return "\n".join(lines)


def logout_form(proof: str) -> str:
    """The button to log out."""
    return (
        f'<form method="post" action="/"><input type="hidden" name="log_out" '
        f'value="{escape(proof)}"><button>Log out</button></form>'
    )

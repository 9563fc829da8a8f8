"""What browsers send: fields of forms, pairs of queries, and the page to return to."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import LONG_TEXT_CHARS_MAX, ROOT, VALUE_CHARS_MAX
from opentalos.gateway.http.exchange import Exchange

BODY_BYTES_MAX: Final = 4 << 20  # a message in a form, percent-encoded
_FIELDS_MAX: Final = 200
_PAIRS_MAX: Final = 40
_TYPE: Final = b"application/x-www-form-urlencoded"
_VISIBLE: Final = re.compile(r"[\x21-\x7e]{1,4000}")


def form_of(exchange: Exchange) -> Mapping[str, str]:
    """The fields; of one name the last one. Raises: RestError."""
    content_type = exchange.headers.get(b"content-type", b"").partition(b";")[0]
    if content_type.strip().lower() != _TYPE:
        raise RestError(415, f"unsupported content type; send {_TYPE.decode()}")
    if exchange.body_bytes > BODY_BYTES_MAX:
        raise RestError(413, f"the form is larger than {BODY_BYTES_MAX:,} bytes")
    try:
        pairs = parse_qsl(
            exchange.body.decode(),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_FIELDS_MAX,
        )
    except ValueError as error:
        raise RestError(400, "invalid form: send percent-encoded UTF-8") from error
    if any(len(value) > LONG_TEXT_CHARS_MAX for _, value in pairs):
        raise RestError(413, f"a field is longer than {LONG_TEXT_CHARS_MAX:,} characters")
    # As a text area is sent, whose lines a program would end with a line feed.
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


def pairs_of(query: bytes) -> Mapping[str, str]:
    """The pairs of a query; what is no valid query counts as none."""
    try:
        pairs = parse_qsl(query.decode("ascii"), errors="strict", max_num_fields=_PAIRS_MAX)
    except ValueError:
        return {}
    return {name: value[:VALUE_CHARS_MAX] for name, value in pairs}


def safe_return(wanted: str) -> str:
    """The page to return to, if it is one of the console; else the first one.

    So nobody can send a user, by a link to the login, to another site or to other parts of this
    server.
    """
    if not _VISIBLE.fullmatch(wanted) or not wanted.startswith(ROOT) or "\\" in wanted:
        return ROOT
    path = unquote(wanted.partition("?")[0].partition("#")[0])
    parts = path[len(ROOT) :].split("/")
    if path.startswith("//") or "\\" in path or not {".", ".."}.isdisjoint(parts):
        return ROOT
    return ROOT if parts[0] in ("login", "logout") else wanted

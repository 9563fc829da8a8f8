"""Druid over HTTP: JSON requests and replies, with Druid's errors translated."""

import json
import urllib.error
import urllib.request
from typing import Any, Final
from urllib.parse import quote

from opentalos.model.errors import BadRequest, ConfigError, StoreUnavailable

SCHEME: Final = "druid://"
TIMEOUT_S: Final = 60.0  # of one request
_SHOWN_CHARS_MAX: Final = 300


class DruidHttp:
    """The coordinator, which ingests rows, and the broker, which serves queries."""

    def __init__(self, url: str) -> None:
        """``url``: druid://COORDINATOR_HOST:PORT,BROKER_HOST:PORT. Raises: ConfigError."""
        places = url.removeprefix(SCHEME).split(",")
        if not url.startswith(SCHEME) or len(places) != 2 or not all(map(_is_address, places)):
            form = f"{SCHEME}COORDINATOR_HOST:PORT,BROKER_HOST:PORT"
            raise ConfigError(f"{url!r} is not a Druid address: write {form}")
        self._coordinator, self._broker = (f"http://{place}" for place in places)

    def coordinator(self, path: str, body: object = None) -> Any:
        """GET, or POST if a body is given. Raises: BadRequest, StoreUnavailable."""
        return _call(self._coordinator + path, body)

    def broker(self, path: str, body: object = None) -> Any:
        """As ``coordinator``."""
        return _call(self._broker + path, body)


def part(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdigit() and not set(host) & set("/?#@ ")


def _call(url: str, body: object) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:
            text = reply.read()
            return json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        with error:
            said = _error_text(error.read())
        if 400 <= error.code < 500:
            raise BadRequest(f"Druid rejected the request ({error.code}): {said}") from error
        raise StoreUnavailable(f"Druid failed at {url} ({error.code}): {said}") from error
    except (OSError, ValueError) as error:
        raise StoreUnavailable(f"Druid at {url} is unavailable: {error}") from error


def _error_text(body: bytes) -> str:
    text = body.decode(errors="replace")
    try:
        document = json.loads(text)
        text = document.get("errorMessage") or document.get("error") or text
    except (ValueError, AttributeError):
        pass
    return " ".join(str(text).split())[:_SHOWN_CHARS_MAX]

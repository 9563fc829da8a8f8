"""REST calls of commands to a running server, as its administrator."""

import base64
import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from opentalos.model.errors import ConfigError, RequestError, StoreUnavailable

_TIMEOUT_S = 10.0
_REPLY_BYTES_MAX = 16 << 20
_C = TypeVar("_C", bound=Callable[..., Any])


def with_server(command: _C) -> _C:
    """The options that say which server to talk to, and as whom."""
    for option in (
        click.option(
            "--data", type=click.Path(path_type=Path), default=Path("talos-data"),
            show_default=True, help="Data directory of a server on this machine.",
        ),
        click.option("--url", help="Server, if it is not the one of --data."),
        click.option("--as", "key", metavar="ID:SECRET", help="Key, if not DATA/root.key."),
    ):  # fmt: skip
        command = option(command)
    return command


class RestClient:
    """Calls the server of a data directory, or of a URL."""

    def __init__(self, data: Path, url: str | None, key: str | None) -> None:
        from opentalos.server.data_directory import parse_key, read_root_key

        self._url = urlsplit(url or _url_of(data))
        try:
            pair = parse_key(key, "--as") if key else read_root_key(data / "root.key")
        except ConfigError as error:
            # Of a cluster, only the server that made it has the file.
            raise error if key else ConfigError(f"{error}; give --as ID:SECRET") from error
        self._authorization = base64.b64encode(":".join(pair).encode()).decode()

    def __call__(self, method: str, path: str, document: Any = None) -> Any:
        connection = http.client.HTTPConnection(self._url.netloc, timeout=_TIMEOUT_S)
        headers = {"Authorization": f"Basic {self._authorization}"}
        body = None if document is None else json.dumps(document)
        try:
            connection.request(method, f"/rest/v1/{path}", body, headers)
            reply = connection.getresponse()
            text = reply.read(_REPLY_BYTES_MAX)
        except (OSError, http.client.HTTPException) as error:
            raise StoreUnavailable(f"cannot reach {self._url.geturl()}: {error}") from error
        finally:
            connection.close()
        if reply.status >= http.client.BAD_REQUEST:
            raise RequestError(_detail(text) or f"the server answered {reply.status}")
        return json.loads(text) if text else None


def _url_of(data: Path) -> str:
    path = data / "server.json"
    try:
        return str(json.loads(path.read_text())["url"])
    except FileNotFoundError as error:
        raise ConfigError(f"no server runs on {data}: {path} does not exist") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is unreadable: {error}") from error


def _detail(text: bytes) -> str:
    try:
        return str(json.loads(text)["detail"])
    except (ValueError, KeyError, TypeError):
        return text.decode("utf-8", "replace").strip()

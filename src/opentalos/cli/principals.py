"""``talos user`` and ``talos key``: principals of a running server, over REST."""

import base64
import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import click

from opentalos.model.errors import ConfigError, RequestError, StoreUnavailable

_TIMEOUT_S = 10.0
_REPLY_BYTES_MAX = 16 << 20
_C = TypeVar("_C", bound=Callable[..., Any])


def _with_server(command: _C) -> _C:
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


@click.group()
def user() -> None:
    """Users of a running server."""


@user.command("create")
@click.argument("name")
@click.option("--organisation", default="", help="Organisation id (CL...).")
@click.option("--team", default="", help="Team id (CI...).")
@click.option("--admin", is_flag=True, help="Make a service administrator.")
@_with_server
def create_user(name: str, organisation: str, team: str, admin: bool, **server: Any) -> None:
    """Create user NAME with a first key; the secret is shown once."""
    call = _Rest(**server)
    fields = {"id": name, "organisation": organisation, "team": team, "admin": admin}
    call("POST", "principals", fields)
    _show_key(call("POST", f"principals/{quote(name, safe='')}/keys"))


@user.command("list")
@_with_server
def list_users(**server: Any) -> None:
    """List users with their keys."""
    for principal in _Rest(**server)("GET", "principals")["principals"]:
        live = sum(not key["disabled"] for key in principal["keys"])
        role = "admin" if principal["admin"] else "user"
        click.echo(f"{principal['id']}\t{role}\t{principal['organisation'] or '-'}\t{live} keys")


@click.group()
def key() -> None:
    """Access keys of users."""


@key.command("create")
@click.argument("name")
@_with_server
def create_key(name: str, **server: Any) -> None:
    """Create a key for user NAME; the secret is shown once."""
    _show_key(_Rest(**server)("POST", f"principals/{quote(name, safe='')}/keys"))


@key.command("disable")
@click.argument("key_id")
@_with_server
def disable_key(key_id: str, **server: Any) -> None:
    """Disable key KEY_ID for ever."""
    _Rest(**server)("DELETE", f"keys/{quote(key_id, safe='')}")
    click.echo(f"disabled {key_id}")


@key.command("list")
@click.argument("name")
@_with_server
def list_keys(name: str, **server: Any) -> None:
    """List the keys of user NAME, without secrets."""
    for item in _Rest(**server)("GET", f"principals/{quote(name, safe='')}/keys")["keys"]:
        click.echo(f"{item['key_id']}\t{'disabled' if item['disabled'] else 'live'}")


def _show_key(issued: dict[str, Any]) -> None:
    click.echo(f"key id: {issued['key_id']}")
    click.echo(f"secret: {issued['secret']}")


class _Rest:
    """Calls the server of a data directory, or of a URL."""

    def __init__(self, data: Path, url: str | None, key: str | None) -> None:
        from opentalos.server.data_directory import parse_key, read_root_key

        self._url = urlsplit(url or _url_of(data))
        pair = parse_key(key, "--as") if key else read_root_key(data / "root.key")
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

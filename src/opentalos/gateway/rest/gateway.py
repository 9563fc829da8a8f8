"""REST calls: authenticated by key id and secret, handed to the broker's use cases."""

import asyncio
import base64
import binascii
import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import unquote

from opentalos.broker.broker import Broker
from opentalos.broker.values import PrincipalInfo
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.reply_format import head
from opentalos.gateway.rest.cluster import ClusterRoutes
from opentalos.gateway.rest.errors import NotServed, problem
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.model.errors import (
    BadRequest,
    ExcessivePending,
    InvalidCredential,
    PrincipalNotExist,
    TalosError,
)
from opentalos.model.identity import Principal

PREFIX = b"/rest/v1/"
TASKS_MAX = 1_000  # REST calls under way, whole server
BODY_BYTES_MAX = 1 << 20
_JSON = b"application/json"
_PROBLEM = b"application/problem+json"
_CHALLENGE = b'WWW-Authenticate: Basic realm="talos", charset="UTF-8"\r\n'
_NO_STORE = b"Cache-Control: no-store\r\n"  # replies may carry a secret

_log = logging.getLogger("opentalos.rest")


class RestGateway:
    """Principals, keys, the cluster and health; the console's and the tools' door."""

    def __init__(
        self, broker: Broker, authenticator: Authenticator, cluster: ClusterRoutes
    ) -> None:
        self._principals = broker.principals
        self._cluster = cluster
        self._authenticator = authenticator
        self._tasks: set[asyncio.Task[None]] = set()

    def exact_routes(self) -> dict[bytes, Callable[[Exchange], None]]:
        """Handlers by whole path."""
        return {b"/healthz": reply_alive, b"/readyz": reply_alive}

    def prefix_routes(self) -> list[tuple[bytes, Callable[[Exchange], None]]]:
        """Handlers by the beginning of the path."""
        return [(PREFIX, self._serve)]

    def _serve(self, exchange: Exchange) -> None:
        if len(self._tasks) >= TASKS_MAX:
            _reply_problem(exchange, ExcessivePending(f"{TASKS_MAX} calls are under way"))
            return
        exchange.late = partial(_reply_problem, exchange)
        task = asyncio.get_running_loop().create_task(self._run(exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, exchange: Exchange) -> None:
        try:
            status, document = await self._call(exchange)
        except TalosError as error:
            _reply_problem(exchange, error)
        except Exception:
            _log.exception("a REST call failed unexpectedly")
            exchange.reply_text(500, "internal error")
        else:
            body = b"" if document is None else json.dumps(document).encode() + b"\n"
            exchange.reply(head(status, _JSON), body, _NO_STORE)

    async def _call(self, exchange: Exchange) -> tuple[int, Any]:
        caller = self._caller(exchange)
        path = exchange.path[len(PREFIX) :].decode("latin-1")
        parts = [unquote(part, errors="replace") for part in path.split("/")]
        match exchange.method, parts:
            case b"GET", ["principals"]:
                listed = self._principals.list_principals(caller)
                return 200, {"principals": [_principal(info) for info in listed]}
            case b"POST", ["principals"]:
                return 201, await self._create(caller, _document(exchange))
            case b"GET", ["principals", name, "keys"]:
                return 200, {"keys": _keys(self._find(caller, name))}
            case b"POST", ["principals", name, "keys"]:
                key = await self._principals.create_key(caller, name)
                return 201, {"key_id": key.key_id, "secret": key.secret}
            case b"DELETE", ["keys", key_id]:
                await self._principals.disable_key(caller, key_id)
                return 204, None
            case method, ["cluster", *rest]:
                document = _document(exchange) if method == b"PUT" else {}
                return await self._cluster.call(method, rest, caller, document)
        raise NotServed("no such resource, or not with this method")

    def _caller(self, exchange: Exchange) -> Principal:
        scheme, _, value = exchange.headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"basic":
            raise InvalidCredential("send HTTP basic authentication with key id and secret")
        try:
            text = base64.b64decode(value.strip(), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise InvalidCredential("unreadable basic authentication") from error
        key_id, _, secret = text.partition(":")
        return self._authenticator.by_secret(key_id, secret, exchange.peer)

    def _find(self, caller: Principal, name: str) -> PrincipalInfo:
        info = self._principals.find(caller, name)
        if info is None:
            raise PrincipalNotExist(f"no principal {name[:80]!r}")
        return info

    async def _create(self, caller: Principal, document: dict[str, Any]) -> dict[str, Any]:
        unknown = set(document) - {"id", "organisation", "team", "admin"}
        if unknown:
            raise BadRequest(f"unknown fields: {', '.join(sorted(unknown))}")
        principal = await self._principals.create(
            caller,
            _text(document, "id"),
            organisation=_text(document, "organisation", ""),
            team=_text(document, "team", ""),
            admin=document.get("admin") is True,
        )
        return _fields(principal)


def reply_alive(exchange: Exchange) -> None:
    """The process runs (``/healthz``), or serves (``/readyz``)."""
    exchange.reply(head(200, _JSON), b'{"status":"ok"}\n', _NO_STORE)


def reply_starting(exchange: Exchange) -> None:
    """Not done: the server has not opened its storage yet."""
    exchange.reply_text(503, "the server is starting")


def _document(exchange: Exchange) -> dict[str, Any]:
    if len(exchange.body) > BODY_BYTES_MAX:
        raise BadRequest(f"the body is above {BODY_BYTES_MAX} bytes")
    try:
        document = json.loads(exchange.body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise BadRequest("the body must be a JSON object")
    return document


def _text(document: dict[str, Any], name: str, default: str | None = None) -> str:
    value = document.get(name, default)
    if not isinstance(value, str):
        raise BadRequest(f"{name} must be a text")
    return value


def _fields(principal: Principal) -> dict[str, Any]:
    return {
        "id": principal.id,
        "number": principal.number,
        "organisation": principal.organisation,
        "team": principal.team,
        "admin": principal.admin,
    }


def _principal(info: PrincipalInfo) -> dict[str, Any]:
    return _fields(info.principal) | {
        "created_ms": info.created_ms,
        "disabled": info.disabled,
        "keys": _keys(info),
    }


def _keys(info: PrincipalInfo) -> list[dict[str, Any]]:
    return [
        {"key_id": key.key_id, "created_ms": key.created_ms, "disabled": key.disabled}
        for key in info.keys
    ]


def _reply_problem(exchange: Exchange, error: TalosError) -> None:
    status, body = problem(error)
    challenge = _CHALLENGE if isinstance(error, InvalidCredential) else b""
    exchange.reply(head(status, _PROBLEM), body + b"\n", challenge)

"""REST calls on stand-ins: who may, what comes back, what is refused."""

import asyncio
import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest

from opentalos.broker.values import IssuedKey, KeyInfo, PrincipalInfo
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.rest.gateway import RestGateway
from opentalos.model.errors import InvalidCredential, OutcomeUnknown, PermissionDenied
from opentalos.model.identity import Principal

ROOT = Principal(id="root", number=1, admin=True)
BOB = PrincipalInfo(Principal(id="bob", number=2), (KeyInfo("K1", 5, False),), 4, False)


class Principals:
    """Answers calls and keeps them."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.error: Exception | None = None

    async def create(self, caller: Principal, name: str, **fields: Any) -> Principal:
        if self.error is not None:
            raise self.error
        self.calls.append(("create", caller.id, name, fields))
        return Principal(id=name, number=9)

    async def create_key(self, caller: Principal, name: str) -> IssuedKey:
        self.calls.append(("create_key", caller.id, name))
        return IssuedKey("K9", "shown once")

    async def disable_key(self, caller: Principal, key_id: str) -> None:
        self.calls.append(("disable_key", caller.id, key_id))

    def list_principals(self, caller: Principal) -> list[PrincipalInfo]:
        return [BOB]

    def find(self, caller: Principal, name: str) -> PrincipalInfo | None:
        return BOB if name == "bob" else None


class Bench:
    """A gateway whose one user is ``K:s``."""

    def __init__(self) -> None:
        self.principals = Principals()
        authenticator: Any = SimpleNamespace(by_secret=self._by_secret)
        broker: Any = SimpleNamespace(principals=self.principals)
        cluster: Any = SimpleNamespace(call=self._cluster_call)
        self.gateway = RestGateway(broker, authenticator, cluster)
        self.extra = b""

    async def _cluster_call(
        self, method: bytes, parts: Any, caller: Principal, document: Any
    ) -> tuple[int, Any]:
        return 200, {"method": method.decode(), "parts": parts, "sent": document}

    @staticmethod
    def _by_secret(key_id: str, secret: str, peer: str) -> Principal:
        if (key_id, secret) != ("K", "s"):
            raise InvalidCredential("no")
        return ROOT

    async def call(
        self, method: str, path: str, body: bytes = b"", authorization: bytes = b""
    ) -> tuple[int, Any]:
        replied: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()

        def answer(exchange: Exchange, prefix: bytes, body: bytes, extra: bytes) -> None:
            self.extra = extra
            replied.set_result((int(prefix.split()[1]), body))

        connection: Any = SimpleNamespace(answer=answer, alive=True, peer="")
        headers = {b"authorization": authorization or b"Basic " + base64.b64encode(b"K:s")}
        exchange = Exchange(connection, method.encode(), path.encode(), headers)
        exchange.body = body
        routes = dict(self.gateway.prefix_routes())
        routes[b"/rest/v1/"](exchange)
        status, text = await asyncio.wait_for(replied, 5)
        return status, json.loads(text) if text.startswith(b"{") else text


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_a_call_that_takes_too_long_ends_as_unknown(bench: Bench) -> None:
    replies: list[tuple[bytes, bytes]] = []
    connection: Any = SimpleNamespace(
        answer=lambda exchange, prefix, body, extra: replies.append((prefix, body)),
        alive=True,
        peer="",
    )
    exchange = Exchange(connection, b"GET", b"/rest/v1/principals", {})
    dict(bench.gateway.prefix_routes())[b"/rest/v1/"](exchange)
    assert exchange.late is not None
    exchange.late(OutcomeUnknown("this takes too long"))
    assert b" 504 " in replies[0][0]
    assert json.loads(replies[0][1])["outcome"] == "unknown"
    await asyncio.sleep(0)
    assert len(replies) == 1


async def test_principals_are_created_and_listed(bench: Bench) -> None:
    body = json.dumps({"id": "eve", "organisation": "CL1", "admin": True}).encode()
    status, made = await bench.call("POST", "/rest/v1/principals", body)
    assert (status, made["id"]) == (201, "eve")
    fields = {"organisation": "CL1", "team": "", "admin": True}
    assert bench.principals.calls == [("create", "root", "eve", fields)]
    status, listed = await bench.call("GET", "/rest/v1/principals")
    assert [item["id"] for item in listed["principals"]] == ["bob"]
    assert b"no-store" in bench.extra


async def test_keys_are_issued_listed_and_disabled(bench: Bench) -> None:
    status, key = await bench.call("POST", "/rest/v1/principals/a%2Fb/keys")
    assert (status, key) == (201, {"key_id": "K9", "secret": "shown once"})
    assert bench.principals.calls == [("create_key", "root", "a/b")]
    status, keys = await bench.call("GET", "/rest/v1/principals/bob/keys")
    assert keys == {"keys": [{"key_id": "K1", "created_ms": 5, "disabled": False}]}
    assert (await bench.call("GET", "/rest/v1/principals/nobody/keys"))[0] == 404
    assert await bench.call("DELETE", "/rest/v1/keys/K1") == (204, b"")


@pytest.mark.parametrize(
    "authorization",
    [b"Bearer x", b"Basic", b"Basic %%%", b"Basic " + base64.b64encode(b"K:wrong"),
     b"Basic " + base64.b64encode(b"\xff\xfe")],
)  # fmt: skip
async def test_callers_without_a_right_key_are_challenged(
    bench: Bench, authorization: bytes
) -> None:
    status, problem = await bench.call("GET", "/rest/v1/principals", authorization=authorization)
    assert (status, problem["title"]) == (401, "InvalidCredential")
    assert bench.extra.startswith(b"WWW-Authenticate: Basic")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"id": 5}', b"{}", b'{"id": "x", "odd": 1}', b"[" * 100_000]
)
async def test_a_wrong_document_is_refused(bench: Bench, body: bytes) -> None:
    status, problem = await bench.call("POST", "/rest/v1/principals", body)
    assert (status, problem["outcome"]) == (400, "not done")
    assert bench.principals.calls == []


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/rest/v1/"), ("PUT", "/rest/v1/principals"), ("GET", "/rest/v1/keys/a/b")],
)
async def test_what_is_not_served_is_404(bench: Bench, method: str, path: str) -> None:
    assert (await bench.call(method, path))[0] == 404


@pytest.mark.parametrize(
    ("error", "status"),
    [(PermissionDenied("no"), 403), (OutcomeUnknown("maybe"), 504), (RuntimeError("x"), 500)],
)
async def test_errors_of_the_broker_have_their_status(
    bench: Bench, error: Exception, status: int
) -> None:
    bench.principals.error = error
    answer, problem = await bench.call("POST", "/rest/v1/principals", b'{"id": "eve"}')
    assert answer == status
    if isinstance(error, RuntimeError):
        assert problem == b"internal error\n"
    else:
        assert problem["outcome"] == ("unknown" if status == 504 else "not done")

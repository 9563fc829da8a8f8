"""REST calls in general: who may, what comes back, what is refused."""

import asyncio
import base64
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.gateway.rest.support import Rest, exchanged

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.rest.routes import TABLE
from opentalos.gateway.rest.routing.openapi import document
from opentalos.gateway.slots import Slots
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable, TalosError

AWAY = Exception("an unexpected error")


def fail(call: Rest, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let the next creation of a principal raise."""

    async def create(*args: Any, **fields: Any) -> None:
        raise error

    monkeypatch.setattr(call.world.broker.principals, "create", create)


def begun(
    call: Rest, method: bytes, path: bytes, answer: Callable[..., None]
) -> tuple[Exchange, Any]:
    """A call of the administrator that is under way, and its connection."""
    connection: Any = SimpleNamespace(
        answer=answer,
        alive=True,
        peer="",
        network="",
        private=True,
        extend=lambda seconds, waits=False: None,
    )
    headers = {b"authorization": b"Basic " + call.tokens["root"]}
    exchange = Exchange(connection, method, b"/rest/v1/" + path, headers)
    dict(call.gateway.prefix_routes())[b"/rest/v1/"](exchange)
    return exchange, connection


@pytest.mark.parametrize(
    ("method", "path", "failure"),
    [
        (b"GET", b"principals", ""),
        (b"HEAD", b"principals", ""),
        (b"DELETE", b"keys/AKROOT", "OutcomeUnknown"),
    ],
)
async def test_a_read_whose_client_is_gone_is_no_error(
    call: Rest, method: bytes, path: bytes, failure: str
) -> None:
    ended: list[str] = []
    exchange, connection = begun(
        call, method, path, lambda exchange, prefix, body, extra: ended.append(exchange.failure)
    )
    connection.alive = False
    assert exchange.late is not None
    exchange.late(OutcomeUnknown("the client disconnected"))
    assert ended == [failure]


async def test_a_call_that_takes_too_long_ends_as_unknown(
    call: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies: list[tuple[bytes, bytes]] = []
    exchange, _ = begun(
        call,
        b"GET",
        b"principals",
        lambda exchange, prefix, body, extra: replies.append((prefix, body)),
    )
    assert exchange.late is not None
    exchange.late(OutcomeUnknown("this takes too long"))
    assert b" 504 " in replies[0][0]
    assert json.loads(replies[0][1])["outcome"] == "unknown"
    await asyncio.sleep(0)
    assert len(replies) == 1


@pytest.mark.parametrize(
    "authorization",
    ["", "Digest x", "Bearer x", "Basic", "Basic %%%",
     "Basic " + base64.b64encode(b"AKROOT:wrong").decode(),
     "Basic " + base64.b64encode(b"\xff\xfe").decode(),
     "Bearer " + base64.urlsafe_b64encode(b"AKROOT:wrong").decode()],
)  # fmt: skip
async def test_callers_without_a_right_key_are_challenged(call: Rest, authorization: str) -> None:
    replied = await call("GET", "principals", headers={"Authorization": authorization})
    assert (replied.status, replied.document["title"]) == (401, "InvalidCredential")
    assert "WWW-Authenticate" in replied.headers


async def test_a_bearer_token_is_the_pair_of_basic_in_base64url(call: Rest) -> None:
    for pad in ("", "="):
        token = base64.urlsafe_b64encode(b"AKROOT:root-secret").decode().rstrip("=") + pad * 2
        replied = await call("GET", "principals", headers={"Authorization": f"Bearer {token}"})
        assert replied.status == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b'{"id": 5}', b"{}", b'{"id": "x", "odd": 1}', b"[" * 100_000,
     b'{"id": "x", "admin": 1}', b'{"id": "\\ud800"}', b'{"id": NaN}', b'{"id": 1e999}',
     b'{"id": "\xff"}', b'{"id": "a/b"}'],
)  # fmt: skip
async def test_a_wrong_document_is_refused(call: Rest, body: bytes) -> None:
    replied = await call("POST", "principals", body=body)
    assert (replied.status, replied.document["outcome"]) == (400, "not done")
    assert len((await call("GET", "principals")).document["principals"]) == 2


@pytest.mark.parametrize("query", ["odd=1", "", "x", "a=%ff"])
async def test_unknown_parameters_are_refused(call: Rest, query: str) -> None:
    expected = 400 if query else 200
    assert (await call("GET", f"principals?{query}")).status == expected


@pytest.mark.parametrize(
    "path", ["", "nothing", "keys/a/b", "principals/", "principals/%ff", "principals/%00"]
)
async def test_what_is_not_served_is_404(call: Rest, path: str) -> None:
    replied = await call("GET", path)
    assert (replied.status, replied.document["title"]) == (404, "NotServed")


async def test_a_wrong_method_gets_the_allowed_ones(call: Rest) -> None:
    replied = await call("PUT", "principals")
    assert (replied.status, replied.headers["Allow"]) == (405, "GET, POST, HEAD, OPTIONS")
    replied = await call("OPTIONS", "principals", by="")
    assert (replied.status, replied.headers["Allow"]) == (204, "GET, POST, HEAD, OPTIONS")
    assert (await call("OPTIONS", "nothing")).status == 404
    assert (await call("HEAD", "principals")).status == 200


async def test_a_browser_is_not_asked_for_a_password(call: Rest) -> None:
    for headers in ({"Sec-Fetch-Mode": "navigate"}, {"Accept": "text/html,*/*;q=0.8"}):
        replied = await call("GET", "principals", by="", headers=headers)
        assert (replied.status, replied.headers["WWW-Authenticate"][:6]) == (401, "Bearer")


@pytest.mark.parametrize(
    "headers",
    [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
     {"Sec-Fetch-Site": "cross-site", "Origin": "http://h:1"}, {"Origin": "http://evil.example"},
     {"Origin": "null"}, {"Origin": "http://h:2"}, {"Origin": "file://"}, {"Origin": ""}],
)  # fmt: skip
async def test_a_page_of_another_site_can_change_nothing(
    call: Rest, headers: dict[str, str]
) -> None:
    headers = {"Host": "h:1", **headers}
    eve = {"id": "eve", "admin": True}
    replied = await call("POST", "principals", eve, headers=headers)
    assert (replied.status, replied.document["title"]) == (403, "PermissionDenied")
    assert len((await call("GET", "principals")).document["principals"]) == 2
    assert (await call("GET", "principals", headers=headers)).status == 403, "stored credentials"
    token = base64.urlsafe_b64encode(b"AKROOT:root-secret").decode()
    bearer = {**headers, "Authorization": f"Bearer {token}"}
    assert (await call("GET", "principals", headers=bearer)).status == 200, "its own token"


@pytest.mark.parametrize(
    "headers",
    [{}, {"Sec-Fetch-Site": "same-origin", "Origin": "https://proxy"}, {"Sec-Fetch-Site": "none"},
     {"Origin": "http://h:1"}, {"Origin": "HTTP://H:1"}],
)  # fmt: skip
async def test_programs_and_own_pages_may_change_what_they_may(
    call: Rest, headers: dict[str, str]
) -> None:
    headers = {"Host": "h:1", **headers}
    assert (await call("POST", "principals", {"id": "eve"}, headers=headers)).status == 201


async def test_a_default_port_is_the_same_origin(call: Rest) -> None:
    headers = {"Host": "talos.example", "Origin": "https://talos.example:443"}
    assert (await call("POST", "principals", {"id": "eve"}, headers=headers)).status == 201


async def test_another_content_type_is_refused(call: Rest) -> None:
    for name in ("", "text/plain", "application/x-www-form-urlencoded", "application/jsonx"):
        replied = await call("POST", "principals", {"id": "eve"}, headers={"Content-Type": name})
        assert replied.status == 415
    name = "Application/JSON; charset=utf-8"
    replied = await call("POST", "principals", {"id": "eve"}, headers={"Content-Type": name})
    assert replied.status == 201


async def test_bodies_are_bounded_and_refused_where_there_is_none(call: Rest) -> None:
    large = b'{"id": "' + b"x" * (1 << 20) + b'"}'
    assert (await call("POST", "principals", body=large)).status == 413
    assert (await call("POST", "tables/any/enable", body=b"{}")).status == 400


@pytest.mark.parametrize(
    ("error", "status"),
    [(StoreUnavailable("later"), 503), (OutcomeUnknown("maybe"), 504), (AWAY, 500)],
)
async def test_errors_of_the_broker_have_their_status(
    call: Rest, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    fail(call, monkeypatch, error)
    replied = await call("POST", "principals", {"id": "eve"})
    assert replied.status == status
    assert replied.document["outcome"] == ("not done" if status == 503 else "unknown")
    assert ("Retry-After" in replied.headers) == (status == 503)
    if isinstance(error, TalosError):
        assert replied.document["title"] == type(error).__name__


async def test_a_request_id_is_echoed_or_made(call: Rest) -> None:
    replied = await call("GET", "principals", headers={"X-Request-Id": "mine-7"})
    assert replied.headers["X-Request-Id"] == "mine-7"
    replied = await call("GET", "nothing", headers={"X-Request-Id": "not \x01 mine"})
    made = replied.headers["X-Request-Id"]
    assert made
    assert replied.document["instance"] == f"urn:opentalos:request:{made}"
    assert replied.document["type"] == "urn:opentalos:error:NotServed"


async def test_too_many_calls_at_once_are_refused(
    call: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call.gateway, "_calls", Slots("calls", 0, 0))
    replied = await call("GET", "principals")
    assert (replied.status, replied.document["retry_safe"]) == (503, True)


async def test_a_tenant_that_waits_in_many_calls_leaves_places_to_others_and_administrators(
    call: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = Slots("calls", 12, 2)
    monkeypatch.setattr(call.gateway, "_calls", slots)
    await call.user("bob")
    await call("POST", "topics", {"name": "t", "partitions": 1}, by="alice")
    poll = "topics/t/partitions/0/messages?offset=0&wait_s=20"
    polls = [asyncio.create_task(call("GET", poll, by="alice")) for _ in range(12)]
    for _ in range(20):
        await asyncio.sleep(0)
    done = [task.result() for task in polls if task.done()]
    assert [replied.status for replied in done] == [503] * 7
    assert slots.used == 5
    assert (await call("GET", "topics", by="bob")).status == 200
    assert (await call("GET", "principals")).status == 200
    for task in polls:
        task.cancel()


async def test_the_document_describes_every_route_and_needs_no_key(call: Rest) -> None:
    replied = await call("GET", "openapi.json", by="")
    assert replied.status == 200
    served = {(route.method.lower(), f"/{route.path}") for route in TABLE.routes}
    described = {
        (method, path) for path, found in replied.document["paths"].items() for method in found
    }
    assert described == served
    assert replied.document == json.loads(json.dumps(document(TABLE)))


async def test_names_of_operations_are_unique(call: Rest) -> None:
    names = [
        operation["operationId"]
        for operations in document(TABLE)["paths"].values()
        for operation in operations.values()
    ]
    assert len(names) == len(set(names))


async def test_a_reply_may_not_be_stored(call: Rest) -> None:
    sent = {b"authorization": b"Basic " + call.tokens["root"]}
    replied = await exchanged(call.gateway, "GET", "/rest/v1/principals", sent, b"")
    assert replied.headers["Cache-Control"] == "no-store"


async def test_the_latency_of_calls_is_observed_without_those_that_wait(call: Rest) -> None:
    timed = []
    for method, path in (
        (b"GET", b"topics"), (b"POST", b"topics"),
        (b"GET", b"topics/t/partitions/0/messages?wait_s=1"),
    ):  # fmt: skip
        exchange, _ = begun(call, method, path, lambda *_: None)
        timed.append(exchange.timed)
    assert timed == [call.gateway.read_s, call.gateway.write_s, None]

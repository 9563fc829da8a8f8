"""Calls of a page: how they end when REST is slow, the browser is gone, or a page asks for much."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from opentalos.gateway.console.calls import CALLS_AT_ONCE, CALLS_MAX, RestCalls, RestError
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.reply_format import head
from opentalos.model.errors import TalosError

JSON = b"application/json"


def page(**headers: str) -> Exchange:
    connection: Any = SimpleNamespace(
        alive=True, secure=True, private=True, certificate=None, peer="p", network="n"
    )
    sent = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Exchange(connection, b"GET", b"/console/", sent)


class Rest:
    """Takes calls and answers when the test says so."""

    def __init__(self) -> None:
        self.taken: list[Exchange] = []
        self.ended: list[TalosError] = []

    def serve(self, exchange: Exchange) -> None:
        exchange.late = self.ended.append
        self.taken.append(exchange)


def answering(status: int, body: bytes, lines: bytes = b"") -> Callable[[Exchange], None]:
    return lambda exchange: exchange.reply(head(status, JSON), body, lines)


async def test_what_says_who_asks_is_passed_on_and_nothing_else() -> None:
    rest = Rest()
    calls = RestCalls(
        rest.serve,
        page(cookie="c=1", authorization="a", host="h", origin="o", x_talos_call="forged", te="x"),
    )
    calls.proof = "proof"
    task = asyncio.create_task(calls.put("topics", "a/b c", document={"x": 1}))
    await asyncio.sleep(0)
    (exchange,) = rest.taken
    assert (exchange.method, exchange.path) == (b"PUT", b"/rest/v1/topics/a%2Fb%20c")
    assert exchange.body == b'{"x":1}'
    assert set(exchange.headers) == {
        b"cookie", b"authorization", b"host", b"origin", b"x-csrf-token", b"content-type",
        b"content-length", b"x-request-id",
    }  # fmt: skip
    assert (exchange.secure, exchange.private, exchange.peer) == (True, True, "p")
    exchange.reply(head(204, JSON), b"")
    assert await task is None


async def test_a_rejection_has_the_reason_of_rest() -> None:
    calls = RestCalls(answering(409, b'{"title": "Conflict", "detail": "it exists"}'), page())
    with pytest.raises(RestError) as caught:
        await calls.post("topics", document={})
    assert (caught.value.status, caught.value.detail) == (409, "it exists")
    assert await calls.maybe("topics") is None
    assert [failure.call for failure in calls.failures] == ["GET /rest/v1/topics"]


async def test_a_rejection_of_a_field_names_the_field_alone() -> None:
    reply = b'{"title": "BadRequest", "detail": "body.name must be a string"}'
    with pytest.raises(RestError) as caught:
        await RestCalls(answering(400, reply), page()).post("topics", document={})
    assert caught.value.detail == "name must be a string"


async def test_a_part_of_a_page_is_not_missing_but_unknown_without_a_login() -> None:
    with pytest.raises(RestError):
        await RestCalls(answering(401, b"{}"), page()).maybe("topics")


async def test_a_reply_that_is_not_json_is_an_error() -> None:
    with pytest.raises(RestError, match="not JSON"):
        await RestCalls(answering(200, b"<html>"), page()).get("topics")


async def test_a_renewed_session_reaches_the_browser_once() -> None:
    line = b"Set-Cookie: s=2; Path=/\r\n"
    calls = RestCalls(answering(200, b"{}", line + b"X-Request-Id: 1\r\n"), page())
    await calls.get("topics")
    await calls.get("status")
    assert calls.cookies == line


async def test_a_call_that_is_not_answered_ends_and_says_what_is_unknown() -> None:
    rest = Rest()
    with pytest.raises(RestError) as read:
        await RestCalls(rest.serve, page()).get("topics")
    assert (read.value.status, "unknown" in read.value.detail) == (504, False)
    with pytest.raises(RestError) as written:
        await RestCalls(rest.serve, page()).post("topics", document={})
    assert "unknown whether it was done" in written.value.detail
    assert len(rest.ended) == 2


async def test_a_browser_that_goes_away_ends_the_calls_of_its_page() -> None:
    rest = Rest()
    calls = RestCalls(rest.serve, page())
    task = asyncio.ensure_future(asyncio.gather(*(calls.get(str(n)) for n in range(20))))
    await asyncio.sleep(0.1)
    assert len(rest.taken) == CALLS_AT_ONCE
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(rest.ended) == CALLS_AT_ONCE
    assert not any(exchange.connected for exchange in rest.taken)


async def test_a_page_makes_a_bounded_number_of_calls() -> None:
    calls = RestCalls(answering(200, b"{}"), page())
    for _ in range(CALLS_MAX):
        await calls.get("topics")
    with pytest.raises(RestError, match="more than"):
        await calls.get("topics")
    assert calls.made == ["GET /rest/v1/topics"]

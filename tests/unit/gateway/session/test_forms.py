"""The forms to log in and out of the status page."""

import asyncio
import re
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
from tests.unit.gateway.rest.support import Rest, rest

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.session import forms
from opentalos.gateway.status_page import StatusPage

FORM = {b"content-type": b"application/x-www-form-urlencoded"}
BROWSER = {b"accept": b"text/html,*/*", b"sec-fetch-site": b"same-origin"}
ROOT = {"key_id": "AKROOT", "secret": "root-secret"}


class Page(NamedTuple):
    """A reply."""

    status: int
    text: str
    lines: str

    @property
    def cookie(self) -> bytes:
        """The pair that it sets."""
        found = re.search(r"Set-Cookie: ([^;]*)", self.lines)
        assert found is not None
        return found.group(1).encode()


@pytest.fixture
async def call() -> AsyncIterator[Rest]:
    async with rest() as client:
        yield client


async def served(
    call: Rest, method: str, headers: dict[bytes, bytes], form: dict[str, str] | None = None
) -> Page:
    replied: asyncio.Future[Page] = asyncio.get_running_loop().create_future()

    def answer(exchange: Exchange, prefix: bytes, body: bytes, extra: bytes) -> None:
        replied.set_result(Page(int(prefix.split()[1]), body.decode(), extra.decode()))

    connection: Any = SimpleNamespace(
        answer=answer, alive=True, secure=False, certificate=None, private=True,
        peer="192.0.2.1", network="192.0.2.1", extend=lambda seconds, waits=False: None,
    )  # fmt: skip
    exchange = Exchange(connection, method.encode(), b"/", dict(headers))
    exchange.body = urlencode(form or {}).encode()
    StatusPage(call.world.broker, call.gateway._callers).serve(exchange)
    return await asyncio.wait_for(replied, 10)


async def test_a_browser_gets_a_form_and_no_prompt_that_would_store_the_key(call: Rest) -> None:
    page = await served(call, "GET", BROWSER)
    assert page.status == 401
    assert '<form method="post" action="/">' in page.text
    assert "Basic" not in page.lines
    assert 'class="bad"' not in page.text
    program = await served(call, "GET", {})
    assert (program.status, "Basic" in program.lines, "<form" in program.text) == (401, True, False)


async def test_a_login_shows_the_page_until_the_logout(call: Rest) -> None:
    login = await served(call, "POST", BROWSER | FORM, ROOT)
    assert (login.status, "Location: /\r\n" in login.lines) == (303, True)
    session = BROWSER | {b"cookie": login.cookie}
    page = await served(call, "GET", session)
    assert (page.status, "as root sees it" in page.text) == (200, True)
    proof = re.search(r'name="log_out" value="([0-9a-f]{64})"', page.text)
    assert proof is not None
    forged = await served(call, "POST", session | FORM, {"log_out": "0" * 64})
    assert forged.status == 403
    logout = await served(call, "POST", session | FORM, {"log_out": proof.group(1)})
    assert (logout.status, "Max-Age=0" in logout.lines) == (303, True)
    after = await served(call, "GET", session)
    assert (after.status, "the session is over" in after.text) == (401, True)


async def test_a_key_needs_no_session_and_gets_none(call: Rest) -> None:
    page = await served(call, "GET", {b"authorization": b"Basic " + call.tokens["alice"]})
    assert (page.status, "log_out" in page.text, "Set-Cookie" in page.lines) == (200, False, False)


async def test_a_failed_login_says_why_and_sets_no_cookie(call: Rest) -> None:
    page = await served(call, "POST", BROWSER | FORM, {"key_id": "<b>", "secret": "x"})
    assert (page.status, 'class="bad"' in page.text, "Set-Cookie" in page.lines) == (
        401, True, False,
    )  # fmt: skip


async def test_a_page_of_another_site_cannot_log_anyone_in(call: Rest) -> None:
    for site in ({b"sec-fetch-site": b"cross-site"}, {b"sec-fetch-site": b"same-site"}):
        assert (await served(call, "POST", BROWSER | FORM | site, ROOT)).status == 403
    old = {b"accept": b"text/html", b"origin": b"http://evil.example", b"host": b"talos:29999"}
    assert (await served(call, "POST", old | FORM, ROOT)).status == 403


async def test_what_is_no_form_is_refused(call: Rest) -> None:
    plain = BROWSER | {b"content-type": b"text/plain"}
    assert (await served(call, "POST", plain, ROOT)).status == 415
    large = {"key_id": "x" * forms.BODY_BYTES_MAX}
    assert (await served(call, "POST", BROWSER | FORM, large)).status == 413
    many = {f"f{number}": "x" for number in range(20)}
    assert (await served(call, "POST", BROWSER | FORM, many)).status == 400
    assert (await served(call, "PUT", BROWSER)).status == 405


def test_texts_in_the_form_are_escaped_and_it_loads_nothing() -> None:
    page = forms.login_page("<script>alert(1)</script>")
    assert "<script>" not in page
    assert re.findall(r"(?:src|href)=\"(?!data:)", page) == []
    assert b"form-action 'self'; frame-ancestors 'none'" in forms.HEADERS

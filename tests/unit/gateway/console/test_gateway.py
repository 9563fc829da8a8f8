"""The console's frame: logins, forms, what is refused, what every page carries."""

import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from tests.unit.gateway.console.support import Browser, browser

from opentalos.gateway.http.exchange import Exchange
from opentalos.model.identity import Principal

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


@pytest.fixture
async def root() -> AsyncIterator[Browser]:
    async with browser() as made:
        yield made


async def test_without_a_login_every_page_leads_to_it_and_back(root: Browser) -> None:
    stranger = Browser(root.rest, root.console)
    sent = await stranger.get("/console/topics?filter=a%26b&page=2")
    assert sent.status == 303
    assert sent.place == "/console/login?next=%2Fconsole%2Ftopics%3Ffilter%3Da%2526b%26page%3D2"
    form = await stranger.get(sent.place)
    assert (form.status, "Key id" in form.words) == (200, True)
    back = await stranger.log_in("AKROOT", "root-secret", sent.place)
    assert (back.status, back.place) == (303, "/console/topics?filter=a%26b&page=2")
    assert (await stranger.get(back.place)).status == 200


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.test/", "//evil.test/console/", "/rest/v1/session", "/console/../docs",
        "/console/%2e%2e/docs", "/console/\\evil.test", "/console/%5c%5cevil.test",
        "javascript:alert(1)", "/console/logout", "/console/a\r\nSet-Cookie: x=y", "",
    ],
)  # fmt: skip
async def test_a_login_leads_to_no_place_outside_the_console(root: Browser, wanted: str) -> None:
    from urllib.parse import quote

    path = f"/console/login?next={quote(wanted)}"
    reply = await root.log_in("AKROOT", "root-secret", path)
    assert (reply.status, reply.place) == (303, "/console/")


async def test_a_wrong_secret_is_refused_with_the_form(root: Browser) -> None:
    reply = await Browser(root.rest, root.console).log_in("AKROOT", "wrong")
    assert (reply.status, "Secret" in reply.words) == (401, True)
    assert "Basic" not in reply.lines


async def test_pages_have_a_strict_policy(root: Browser) -> None:
    for path in ("/console/", "/console/login", "/console/nothing"):
        reply = await root.get(path)
        assert f"Content-Security-Policy: {POLICY}\r\n" in reply.lines
        assert "X-Content-Type-Options: nosniff\r\n" in reply.lines
        assert "Cache-Control: no-store\r\n" in reply.lines
        for forbidden in ("<style", "style=", "onclick", "javascript:", "hx-on", "<script>"):
            assert forbidden not in reply.text


async def test_a_form_without_the_proof_of_the_session_changes_nothing(root: Browser) -> None:
    fields = {"name": "orders", "partitions": "2"}
    forged = await root.submit("/console/topics/new", fields, proof="0" * 64)
    assert (forged.status, "X-CSRF-Token" in forged.words) == (403, True)
    assert 'value="orders"' in forged.text
    assert "orders" not in (await root.get("/console/topics")).words
    made = await root.submit("/console/topics/new", fields)
    assert (made.status, made.place) == (303, "/console/topics/root%2Forders")
    shown = await root.get(made.place)
    assert "Topic orders was created." in shown.words
    assert "was created" not in (await root.get(made.place)).words


async def test_a_form_of_another_site_is_refused(root: Browser) -> None:
    reply = await root.send("POST", "/console/login", {"sec-fetch-site": "cross-site"}, b"")
    assert reply.status == 403
    assert "Set-Cookie" not in reply.lines


async def test_log_out_ends_the_session(root: Browser) -> None:
    kept = dict(root.cookies)
    assert (await root.send("POST", "/console/logout", {}, b"csrf=wrong")).status == 403
    out = await root.submit("/console/", {})
    assert out.status == 405
    page = await root.get("/console/")
    proof = page.text.partition('name="csrf" value="')[2].partition('"')[0]
    out = await root.send("POST", "/console/logout", {}, f"csrf={proof}".encode())
    assert (out.status, out.place) == (303, "/console/login")
    root.cookies = kept
    assert (await root.get("/console/")).status == 303


async def test_a_part_of_a_page_without_a_login_sends_the_whole_page(root: Browser) -> None:
    stranger = Browser(root.rest, root.console)
    reply = await stranger.get("/console/topics", hx_request="true")
    assert reply.status == 401
    assert "HX-Redirect: /console/login?next=%2Fconsole%2Ftopics\r\n" in reply.lines


async def test_unknown_pages_and_methods(root: Browser) -> None:
    assert (await root.get("/console/nothing")).status == 404
    assert (await root.get("/console/topics/missing")).status == 404
    assert (await root.send("PUT", "/console/", {})).status == 405
    assert (await root.get("/console")).place == "/console/"
    assert (await root.get("/consolette")).status == 404


async def test_pages_say_how_rest_and_the_command_show_the_same(root: Browser) -> None:
    words = (await root.get("/console/topics")).words
    assert "GET /rest/v1/topics?scope=visible" in words
    assert "talos topic list" in words


async def test_a_page_while_rest_does_not_answer_says_so_and_tries_again(root: Browser) -> None:
    answered = root.console._serve_rest

    def silent(exchange: Exchange) -> None:
        if exchange.path != b"/rest/v1/topics":
            answered(exchange)

    root.console._serve_rest = silent
    reply = await root.get("/console/topics")
    assert (reply.status, 'data-again="3"' in reply.text) == (504, True)
    assert "did not answer within 12 s" in reply.words
    root.console._serve_rest = answered
    assert (await root.get("/console/topics")).status == 200


async def test_a_defect_is_an_error_page_without_its_traceback(root: Browser) -> None:
    def broken(exchange: Exchange) -> None:
        raise LookupError("secret detail")

    root.console._serve_rest = broken
    reply = await root.get("/console/topics")
    assert reply.status == 500
    assert "its request id is" in reply.words
    assert "LookupError" not in reply.text
    assert "secret detail" not in reply.text


async def test_one_caller_does_not_take_all_places(root: Browser) -> None:
    alice = await root.as_user("al", organisation="CL1")
    bob = await root.as_user("bo", organisation="CL2")
    places = [root.console._slots.take(Principal(id="al", number=2, organisation="CL1"), "n")
              for _ in range(27)]  # fmt: skip
    refused = await alice.get("/console/")
    assert (refused.status, "Retry-After" in refused.lines) == (429, True)
    assert (await bob.get("/console/")).status == 200
    assert (await root.get("/console/")).status == 200
    for place in places:
        place.free()
    assert (await alice.get("/console/")).status == 200


@pytest.mark.real_time
def test_a_server_without_the_console_loads_nothing_of_it() -> None:
    program = (
        "import sys, opentalos.server.lifecycle\n"
        "print([name for name in sys.modules if 'jinja2' in name or 'gateway.console' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr

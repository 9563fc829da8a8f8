"""ConsoleGateway: answers everything below ``/console/``.

It finds the page, asks REST who the caller is, lets the page read what it shows, and draws it. A
form is one POST: REST does what it asks for, with the proof of the session that the form carries,
then the browser is sent to a page. No login: the page to log in, which leads back to where one was.
"""

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from opentalos.gateway.console import notices, static_files
from opentalos.gateway.console.calls import RestCalls, RestError
from opentalos.gateway.console.drawing import Drawing
from opentalos.gateway.console.forms import form_of, pairs_of, safe_return
from opentalos.gateway.console.page import ROOT, Data, Done, Page, Query, Shown, View, Visit, Who
from opentalos.gateway.console.table import find, menu
from opentalos.gateway.http.exchange import Exchange, Handler, abandoned
from opentalos.gateway.http.reply_format import RETRY_AFTER, head
from opentalos.gateway.http.request_scope import request_scope
from opentalos.gateway.slots import Slots
from opentalos.model.errors import ExcessivePending, TalosError
from opentalos.model.identity import Principal
from opentalos.model.settings.console import ConsoleSettings

PAGE_S: Final = 30.0
LOGIN, LOGOUT = "login", "logout"
RESUMED: Final = "resumed"  # field of a form that is shown again after a login
_NOT_KEPT: Final = ("csrf", "confirmed", "secret", RESUMED)
_LOGOUT_END: Final = b"/logout"
_SAME_SITE: Final = b"same-origin"
_KEPT_PART: Final = 10  # a tenth of the pages is kept for administrators
_HTML: Final = b"text/html; charset=utf-8"
_JSON: Final = b"application/json"
_SEE_OTHER, _NO_LOGIN, _NOT_FOUND, _TOO_MANY, _INTERNAL = 303, 401, 404, 429, 500
_BUSY: Final = (429, 503, 504)  # the page tries again by itself
HEADERS: Final = (
    b"Cache-Control: no-store\r\n"
    b"Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    b"img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    b"base-uri 'none'\r\n"
    b"Cross-Origin-Opener-Policy: same-origin\r\n"
    b"X-Content-Type-Options: nosniff\r\n"
    b"X-Frame-Options: DENY\r\n"
    b"Referrer-Policy: same-origin\r\n"
)

_log = logging.getLogger("opentalos.console")


class ConsoleGateway:
    """Serves the pages.

    Args: serve: the gateway of REST; server: its name, shown on each page.
    """

    def __init__(self, serve: Handler, settings: ConsoleSettings, server: str) -> None:
        self._serve_rest, self._settings = serve, settings
        self._drawing = Drawing(server)
        pages = settings.pages_max
        self._slots = Slots("pages", pages, max(1, pages // _KEPT_PART))
        self._tasks: set[asyncio.Task[None]] = set()

    def prefix_routes(self) -> list[tuple[bytes, Handler]]:
        """Handlers by path prefix."""
        root = ROOT.encode()
        return [(root + b"static/", static_files.serve), (root, self._serve), (root[:-1], _to_root)]

    def _serve(self, exchange: Exchange) -> None:
        if exchange.method not in (b"GET", b"HEAD", b"POST"):
            exchange.reply_text(405, "send GET or POST", b"Allow: GET, HEAD, POST\r\n")
            return
        exchange.extend(PAGE_S)
        task = asyncio.get_running_loop().create_task(self._answer(exchange))
        exchange.late = partial(self._give_up, exchange, task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, exchange: Exchange) -> None:
        with request_scope(exchange):
            try:
                await self._route(exchange)
            except RestError as error:
                self._fail(exchange, error)
            except TalosError as error:
                status = _TOO_MANY if isinstance(error, ExcessivePending) else 400
                self._fail(exchange, RestError(status, str(error)))
            except Exception:
                _log.exception("a page failed with an internal error")
                reason = f"internal error; its request id is {exchange.request_id}"
                self._fail(exchange, RestError(_INTERNAL, reason))

    async def _route(self, exchange: Exchange) -> None:
        path = exchange.path.decode("latin-1")[len(ROOT) :]
        rest = RestCalls(self._serve_rest, exchange)
        if path == LOGIN:
            await self._log_in(exchange, rest)
            return
        who = await _who(rest)  # REST bounds how many ask at the same time
        slot = self._slots.take(_principal(who), exchange.network)
        try:
            await self._page(exchange, rest, who, path)
        finally:
            slot.free()

    async def _page(self, exchange: Exchange, rest: RestCalls, who: Who, path: str) -> None:
        form = form_of(exchange) if exchange.method == b"POST" else {}
        # A form sends the proof; what is not proven is not done, REST says so.
        proof, rest.proof = rest.proof, form.get("csrf", "")
        rest.own_proof = proof
        if path == LOGOUT:
            await self._log_out(exchange, rest)
            return
        found = find(path)
        if found is None or who.role not in found[0].roles:
            raise RestError(_NOT_FOUND, "there is no such page")
        page, places = found
        query = Query(exchange.path.decode("latin-1"), pairs_of(exchange.query))
        visit = Visit(
            rest=rest,
            who=who,
            query=query,
            places=places,
            now_ms=time.time_ns() // 1_000_000,
            settings=self._settings,
            form=form,
        )
        result = await _run(page, visit, posted=exchange.method == b"POST")
        self._reply(exchange, visit, result, proof)

    def _reply(self, exchange: Exchange, visit: Visit, result: Shown | Done, proof: str) -> None:
        cookies = visit.rest.cookies
        if isinstance(result, Done):
            _redirect(exchange, result.path, cookies + notices.setting(result.notice))
        elif isinstance(result, Data):
            exchange.reply(
                head(200, _JSON), json.dumps(result.document).encode(), HEADERS + cookies
            )
        else:
            notice, clearing = notices.of(exchange)
            variables: Mapping[str, Any] = {
                "visit": visit,
                "proof": proof,
                "menu": menu(visit.who),
                "notice": notice,
                "theme": notices.theme_of(exchange),
            }
            text = self._drawing.page(result, variables)
            exchange.reply(head(result.status, _HTML), text, HEADERS + cookies + clearing)

    async def _log_in(self, exchange: Exchange, rest: RestCalls) -> None:
        back = safe_return(pairs_of(exchange.query).get("next", ""))
        reason, status = "", 200
        if exchange.method == b"POST":
            form = form_of(exchange)
            key = {"key_id": form.get("key_id", ""), "secret": form.get("secret", "")}
            try:
                await rest.post("session", document=key)
            except RestError as error:
                reason, status = error.detail, error.status
            else:
                _redirect(exchange, back, rest.cookies)
                return
        theme = notices.theme_of(exchange)
        text = self._drawing.login(reason=reason, back=back, theme=theme)
        exchange.failure = f"http_{status}" if reason else ""
        exchange.reply(head(status, _HTML), text, HEADERS)

    async def _log_out(self, exchange: Exchange, rest: RestCalls) -> None:
        if exchange.method == b"POST":
            await rest.delete("session")
        _redirect(exchange, ROOT + LOGIN, rest.cookies)

    def _fail(self, exchange: Exchange, error: RestError) -> None:
        exchange.failure = exchange.failure or f"http_{error.status}"
        extra = HEADERS
        if error.status == _NO_LOGIN:
            if not self._keep_form(exchange):
                _to_login(exchange)
            return
        if error.status in _BUSY:
            extra += RETRY_AFTER
        theme = notices.theme_of(exchange)
        again = error.status in _BUSY and exchange.method != b"POST"
        text = self._drawing.failure(error, again=again, theme=theme)
        exchange.reply(head(error.status, _HTML), text, extra)

    def _keep_form(self, exchange: Exchange) -> bool:
        """A login that ended while a form was filled in: a page with what was typed, which shows
        the form again after a login. Nothing is done. False: this is no such form."""
        site = exchange.headers.get(b"sec-fetch-site", _SAME_SITE)
        if exchange.method != b"POST" or exchange.path.endswith(_LOGOUT_END) or site != _SAME_SITE:
            return False
        try:
            form = form_of(exchange)
        except RestError:
            return False
        kept = {name: value for name, value in form.items() if name not in _NOT_KEPT}
        login = Query(ROOT + LOGIN, {}).link(next=ROOT)
        theme = notices.theme_of(exchange)
        text = self._drawing.ended(kept, field=RESUMED, login=login, theme=theme)
        exchange.reply(head(_NO_LOGIN, _HTML), text, HEADERS)
        return True

    def _give_up(self, exchange: Exchange, task: asyncio.Task[None], error: TalosError) -> None:
        task.cancel()
        if exchange.method == b"POST" or not abandoned(exchange):
            self._fail(exchange, RestError(503, str(error)))


async def _who(rest: RestCalls) -> Who:
    """Raises: RestError: the caller is nobody that REST knows."""
    found = await rest.get("session")
    rest.made.clear()  # it is no part of what a page shows
    session = found["session"]
    if session is not None:
        rest.proof = session["csrf_token"]
    ends_ms = session["ends_ms"] if session is not None else 0
    return Who(found["principal"], found["organisation"], found["team"], found["role"], ends_ms)


def _principal(who: Who) -> Principal:
    """Enough of the caller to count its pages."""
    return Principal(
        id=who.id,
        number=1,
        organisation=who.organisation,
        team=who.team,
        admin=who.administers,
    )


async def _run(page: Page, visit: Visit, *, posted: bool) -> Shown | Done:
    """What the page shows; a form that REST rejects is shown again, with the reason."""
    if not posted:
        return await page.show(visit)
    if page.change is None:
        raise RestError(405, "this page has no form")
    if RESUMED in visit.form:
        visit.failure = "Nothing was changed yet: check what you typed, and send it again."
        return await page.show(visit)
    try:
        return await page.change(visit)
    except RestError as error:
        if error.status == _NO_LOGIN:
            raise
        visit.failure = error.detail
        shown = await page.show(visit)
        return shown.with_status(error.status) if isinstance(shown, View) else shown


def _to_root(exchange: Exchange) -> None:
    """``/console`` without the slash; other paths that start so are nothing of ours."""
    if exchange.path == ROOT[:-1].encode():
        _redirect(exchange, ROOT, b"")
    else:
        exchange.reply_text(_NOT_FOUND, "not found")


def _to_login(exchange: Exchange) -> None:
    """Lead to the login, and from there back to this page."""
    wanted = exchange.path.decode("latin-1")
    if exchange.method != b"POST" and exchange.query:
        wanted += "?" + exchange.query.decode("latin-1")
    login = Query(ROOT + LOGIN, {}).link(next=safe_return(wanted))
    if b"hx-request" in exchange.headers:  # a part of a page: the whole page has to go
        extra = b"HX-Redirect: %b\r\n" % login.encode()
        exchange.reply(head(_NO_LOGIN, _HTML), b"", HEADERS + extra)
    else:
        _redirect(exchange, login, b"")


def _redirect(exchange: Exchange, path: str, extra: bytes) -> None:
    line = b"Location: %b\r\n" % path.encode("ascii", "replace")
    exchange.reply(head(_SEE_OTHER, _HTML), b"", HEADERS + extra + line)

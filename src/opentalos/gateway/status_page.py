"""The status page at ``/``: one HTML page, for callers with a key.

It shows what ``GET /rest/v1/status`` and ``GET /rest/v1/cluster`` return to the same caller. A
browser without a session gets a form to log in; programs send their key as everywhere.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Sequence
from functools import partial
from html import escape

from opentalos.broker.admin.overview import TopicOverview
from opentalos.broker.broker import Broker
from opentalos.broker.cluster.service import ClusterStatus
from opentalos.broker.tables.api.values import StreamState, Table
from opentalos.gateway.http.exchange import Exchange, abandoned
from opentalos.gateway.http.reply_format import RETRY_AFTER, head
from opentalos.gateway.http.request_scope import request_scope
from opentalos.gateway.rest.routing.credentials import challenge_of
from opentalos.gateway.rest.routing.errors import status_of
from opentalos.gateway.rest.routing.origin import check_origin, from_browser
from opentalos.gateway.session import forms
from opentalos.gateway.session.callers import Callers
from opentalos.gateway.slots import Slot, Slots
from opentalos.model.errors import (
    AttemptsExceeded,
    InvalidCredential,
    PermissionDenied,
    TalosError,
    Unavailable,
)
from opentalos.model.identity import GUEST, Principal

TASKS_MAX = 20  # concurrent pages, whole server: each queries all partitions that it shows
TASKS_KEPT = 4  # of them, for administrators
TABLES_MAX = 50  # of a page
REFRESH_S = 5
_NONE = "-"
_DAMAGED = '<span class="bad">damaged</span>'
_KIB = 1024
_UNITS = ("KiB", "MiB", "GiB", "TiB")
_HTML = b"text/html; charset=utf-8"
_SEE_OTHER = 303
_END = "\n</body></html>\n"

_log = logging.getLogger("opentalos.status")


class StatusPage:
    """Answers ``GET /`` to every caller of REST, and ``POST /`` of the forms of its pages."""

    def __init__(self, broker: Broker, callers: Callers) -> None:
        self._broker, self._callers = broker, callers
        self._slots = Slots("status pages", TASKS_MAX, TASKS_KEPT)
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, exchange: Exchange) -> None:
        """Handler of the path."""
        if exchange.method not in (b"GET", b"HEAD", b"POST"):
            exchange.reply_text(405, "send GET", b"Allow: GET, HEAD, POST\r\n")
            return
        form: forms.Form | None = None
        try:
            if exchange.method == b"POST":
                check_origin(exchange.method, exchange.headers)
                form = forms.form_of(exchange)
            with request_scope(exchange):
                caller = GUEST if form is not None else self._callers.at_once(exchange)
            slot = self._slots.take(caller or GUEST, exchange.network)
        except TalosError as error:
            _refuse(exchange, error)
            return
        run = self._shown(exchange, caller, slot) if form is None else self._sent(exchange, form)
        task = asyncio.get_running_loop().create_task(self._answer(exchange, run))
        # Cancelling a read changes nothing.
        exchange.late = partial(_refuse, exchange) if form else partial(_give_up, exchange, task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(slot.free)

    async def _answer(self, exchange: Exchange, run: Awaitable[None]) -> None:
        with request_scope(exchange):
            try:
                await run
            except TalosError as error:
                _refuse(exchange, error)
            except Exception:
                _log.exception("status page failed with an internal error")
                exchange.reply_text(500, f"internal error, request {exchange.request_id}")

    async def _shown(self, exchange: Exchange, caller: Principal | None, slot: Slot) -> None:
        if caller is None:
            await self._callers.prepare(exchange)
            caller = self._callers.caller(exchange)
            slot.pass_to(caller, exchange.network)
        session = self._callers.session(exchange)
        proof = self._callers.proof(session) if session is not None else ""
        page = await self._page(caller, proof)
        extra = forms.HEADERS + self._callers.renewal(exchange)
        exchange.reply(head(200, _HTML), page.encode("utf-8", "replace"), extra)

    async def _sent(self, exchange: Exchange, form: forms.Form) -> None:
        """Log in or out, then show the page again."""
        extra = forms.HEADERS + b"Location: /\r\n"
        if form.log_out:
            session = self._callers.session(exchange)
            if session is not None:
                self._callers.check_proof(session, form.log_out)
                extra += _set_cookie(await self._callers.log_out(exchange, session))
        else:
            _, cookie = await self._callers.log_in(exchange, (form.key_id, form.secret))
            extra += _set_cookie(cookie)
        exchange.reply(head(_SEE_OTHER, _HTML), b"", extra)

    async def _page(self, caller: Principal, proof: str) -> str:
        topics, more = await self._broker.overview.overview(caller)
        cluster = None
        if self._broker.cluster is not None and caller.admin:
            try:
                cluster = await self._broker.cluster.status(caller)
            except PermissionDenied:
                cluster = None
        tables = await self._broker.table_admin.list(caller, visible=True)
        server = self._broker.context.config.server
        page = render(server, caller.id, topics, more, cluster, tables)
        # The form is the only part that is not the same for all sessions of a principal.
        return page.replace(_END, forms.logout_form(proof) + _END) if proof else page


def render(
    server: str,
    caller: str,
    topics: Sequence[TopicOverview],
    more: int,
    cluster: ClusterStatus | None,
    tables: Sequence[Table] = (),
) -> str:
    """The whole page; all names are escaped."""
    refresh = f'<meta http-equiv="refresh" content="{REFRESH_S}">'
    parts = [
        *forms.start(f"OpenTalos on {escape(server)}", refresh),
        f"<p>Server {escape(server)}, as {escape(caller)} sees it. "
        f"Refreshed every {REFRESH_S} seconds.</p>",
        *_topics(topics, more),
        *(_tables(tables) if tables else ()),
    ]
    if cluster is not None:
        parts += _members(cluster)
    return "\n".join(parts) + _END


def _topics(topics: Sequence[TopicOverview], more: int) -> list[str]:
    if not topics:
        return ["<h2>Topics</h2>", "<p>No topics that you may see.</p>"]
    numbers = ("Partitions", "Retained messages", "Size", "Messages/s", "Bytes/s")
    lines = [
        "<h2>Topics</h2>",
        "<table><thead><tr><th>Topic</th><th>Owner</th>",
        *(f'<th class="n">{name}</th>' for name in numbers),
        "<th>Lag of consumer groups, in messages</th></tr></thead><tbody>",
    ]
    lines += map(_topic, topics)
    lines.append("</tbody></table>")
    if more:
        lines.append(f"<p>{more:,} further topics are not shown.</p>")
    lines.append(
        "<p>Rates are averages of the last minute; a topic has none until its second refresh.</p>"
    )
    return lines


def _topic(found: TopicOverview) -> str:
    topic, amounts, rate = found.topic, found.amounts, found.rate
    numbers = (
        f"{topic.partitions:,}",
        _DAMAGED if amounts.damaged else f"{amounts.messages:,}",
        _DAMAGED if amounts.damaged else _size(amounts.bytes_count),
        f"{rate.messages_per_s:,.1f}" if rate else _NONE,
        _size(rate.bytes_per_s) if rate and rate.bytes_per_s is not None else _NONE,
    )
    cells = "".join(f'<td class="n">{number}</td>' for number in numbers)
    names = f"<td>{escape(topic.name)}</td><td>{escape(topic.owner)}</td>"
    return f"<tr>{names}{cells}<td>{_lags(found)}</td></tr>"


def _lags(found: TopicOverview) -> str:
    if found.lags is None:
        return '<span class="bad">unavailable now</span>'
    shown = (
        f"{escape(group)}: {_DAMAGED if lag is None else format(lag, ',')}"
        for group, lag in sorted(found.lags.items())
    )
    return "<br>".join(shown) or _NONE


def _tables(tables: Sequence[Table]) -> list[str]:
    lines = [
        "<h2>Tables</h2>",
        "<table><thead><tr><th>Table</th><th>Owner</th><th>State</th>"
        '<th class="n">Shards</th><th>Streams</th></tr></thead><tbody>',
    ]
    for table in tables[:TABLES_MAX]:
        streams = "<br>".join(_stream(*stream) for stream in table.streams.items()) or _NONE
        lines.append(
            f"<tr><td>{escape(table.name)}</td><td>{escape(table.owner)}</td>"
            f'<td>{table.state.name.lower()}</td><td class="n">{table.schema.shards:,}</td>'
            f"<td>{streams}</td></tr>"
        )
    lines.append("</tbody></table>")
    if len(tables) > TABLES_MAX:
        lines.append(f"<p>{len(tables) - TABLES_MAX:,} further tables are not shown.</p>")
    return lines


def _stream(topic: str, state: StreamState) -> str:
    if state.live:
        return escape(topic)
    return f'<span class="bad">{escape(topic)}: stopped, changes are missing</span>'


def _members(cluster: ClusterStatus) -> list[str]:
    lines = [
        "<h2>Cluster</h2>",
        f"<p>{cluster.partitions:,} partitions, {len(cluster.moving):,} moving. "
        f"Leader: {escape(cluster.leader) or 'none'}.</p>",
    ]
    if cluster.unassigned:
        lines.append(f'<p class="bad">{cluster.unassigned:,} partitions have no server.</p>')
    lines.append(
        "<table><thead><tr><th>Server</th><th>State</th><th>Address</th>"
        '<th class="n">Partitions</th><th>Answers</th></tr></thead><tbody>'
    )
    for server in cluster.servers:
        answers = "yes" if server.answers else '<span class="bad">no</span>'
        lines.append(
            f"<tr><td>{escape(server.name)}</td><td>{escape(server.state.value)}</td>"
            f'<td>{escape(server.address)}</td><td class="n">{server.partitions:,}</td>'
            f"<td>{answers}</td></tr>"
        )
    lines.append("</tbody></table>")
    return lines


def _size(count: float) -> str:
    if count < _KIB:
        return f"{count:,.0f} B"
    power = min(int(math.log(count, _KIB)), len(_UNITS))
    return f"{count / _KIB**power:,.1f} {_UNITS[power - 1]}"


def _give_up(exchange: Exchange, task: asyncio.Task[None], error: TalosError) -> None:
    task.cancel()
    if not abandoned(exchange):
        _refuse(exchange, error)


def _refuse(exchange: Exchange, error: TalosError) -> None:
    exchange.failure = type(error).__name__
    headers, status = exchange.headers, status_of(error)
    extra = forms.HEADERS
    if isinstance(error, InvalidCredential):
        extra += challenge_of(headers)
    if isinstance(error, Unavailable):
        extra += RETRY_AFTER
    if isinstance(error, InvalidCredential | AttemptsExceeded) and from_browser(headers):
        tried = exchange.method == b"POST" or b"cookie" in headers
        page = forms.login_page(str(error) if tried else "")
        exchange.reply(head(status, _HTML), page.encode("utf-8", "replace"), extra)
    else:
        exchange.reply_text(status, str(error), extra)


def _set_cookie(value: str) -> bytes:
    return f"Set-Cookie: {value}\r\n".encode()

"""The status page at ``/``: one HTML page, for callers with a key.

It shows what ``GET /rest/v1/status`` and ``GET /rest/v1/cluster`` return to the same caller.
"""

import asyncio
import base64
import hashlib
import logging
import math
from collections.abc import Sequence
from functools import partial
from html import escape

from opentalos import __version__
from opentalos.broker.admin.overview import TopicOverview
from opentalos.broker.broker import Broker
from opentalos.broker.cluster.service import ClusterStatus
from opentalos.broker.tables.api.values import StreamState, Table
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.reply_format import RETRY_AFTER, head
from opentalos.gateway.http.request_scope import request_scope
from opentalos.gateway.rest.routing.credentials import credentials_of
from opentalos.gateway.rest.routing.errors import status_of
from opentalos.gateway.slots import Slots
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.model.errors import (
    AttemptsExceeded,
    ExcessivePending,
    InvalidCredential,
    PermissionDenied,
    TalosError,
    Unavailable,
)
from opentalos.model.identity import Principal

TASKS_MAX = 20  # concurrent pages, whole server: each queries all partitions that it shows
TASKS_KEPT = 4  # of them, for administrators
TABLES_MAX = 50  # of a page
REFRESH_S = 5
_NONE = "-"
_KIB = 1024
_UNITS = ("KiB", "MiB", "GiB", "TiB")
_CHALLENGE = b'WWW-Authenticate: Basic realm="talos", charset="UTF-8"\r\n'
_HTML = b"text/html; charset=utf-8"
_STYLE = """
body{font:15px/1.4 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;
color:#222;background:#fff}
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
p{color:#555;margin:.3rem 0}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.35rem .8rem .35rem 0;border-bottom:1px solid #ddd;
vertical-align:top;overflow-wrap:anywhere}
th{font-weight:600;color:#555;white-space:nowrap}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.bad{color:#a40000;font-weight:600}
@media(prefers-color-scheme:dark){body{background:#181a1b;color:#ddd}p,th{color:#aaa}
th,td{border-color:#444}.bad{color:#ff7b7b}}
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest())
_HEADERS = (
    b"Cache-Control: no-store\r\n"
    b"Content-Security-Policy: default-src 'none'; style-src 'sha256-%b'; img-src data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    b"X-Content-Type-Options: nosniff\r\n"
    b"Referrer-Policy: no-referrer\r\n" % _STYLE_HASH
)

_log = logging.getLogger("opentalos.status")


class StatusPage:
    """Answers ``GET /`` with HTTP basic authentication, key id and secret."""

    def __init__(self, broker: Broker, authenticator: Authenticator) -> None:
        self._broker, self._authenticator = broker, authenticator
        self._slots = Slots("status pages", TASKS_MAX, TASKS_KEPT)
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, exchange: Exchange) -> None:
        """Handler of the path."""
        if exchange.method not in (b"GET", b"HEAD"):
            exchange.reply_text(405, "send GET", b"Allow: GET, HEAD\r\n")
            return
        try:
            key_id, secret = credentials_of(exchange.headers.get(b"authorization", b""))
            caller = self._authenticator.by_secret(
                key_id, secret, exchange.peer, private=exchange.private
            )
            slot = self._slots.take(caller, exchange.network)
        except (AttemptsExceeded, ExcessivePending, InvalidCredential) as error:
            _refuse(exchange, error)
            return
        task = asyncio.get_running_loop().create_task(self._run(exchange, caller))
        exchange.late = partial(_give_up, exchange, task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(slot.free)

    async def _run(self, exchange: Exchange, caller: Principal) -> None:
        with request_scope(exchange):
            try:
                page = await self._page(caller)
            except TalosError as error:
                _refuse(exchange, error)
            except Exception:
                _log.exception("status page failed with an internal error")
                exchange.reply_text(500, f"internal error, request {exchange.request_id}")
            else:
                exchange.reply(head(200, _HTML), page.encode("utf-8", "replace"), _HEADERS)

    async def _page(self, caller: Principal) -> str:
        topics, more = await self._broker.overview.overview(caller)
        cluster = None
        if self._broker.cluster is not None and caller.admin:
            try:
                cluster = await self._broker.cluster.status(caller)
            except PermissionDenied:
                cluster = None
        tables = self._broker.table_admin.list(caller, visible=True)
        server = self._broker.context.config.server
        return render(server, caller.id, topics, more, cluster, tables)


def render(
    server: str,
    caller: str,
    topics: Sequence[TopicOverview],
    more: int,
    cluster: ClusterStatus | None,
    tables: Sequence[Table] = (),
) -> str:
    """The whole page; all names are escaped."""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="refresh" content="{REFRESH_S}">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f'<link rel="icon" href="data:,"><title>OpenTalos on {escape(server)}</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>OpenTalos {escape(__version__)}</h1>",
        f"<p>Server {escape(server)}, as {escape(caller)} sees it. "
        f"Refreshed every {REFRESH_S} seconds.</p>",
        *_topics(topics, more),
        *(_tables(tables) if tables else ()),
    ]
    if cluster is not None:
        parts += _members(cluster)
    parts.append("</body></html>\n")
    return "\n".join(parts)


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
    topic, states, rate = found.description.topic, found.description.partitions, found.rate
    numbers = (
        f"{topic.partitions:,}",
        f"{sum(state.messages for state in states):,}",
        _size(sum(state.bytes_count for state in states)),
        f"{rate.messages_per_s:,.1f}" if rate else _NONE,
        _size(rate.bytes_per_s) if rate else _NONE,
    )
    cells = "".join(f'<td class="n">{number}</td>' for number in numbers)
    names = f"<td>{escape(topic.name)}</td><td>{escape(topic.owner)}</td>"
    return f"<tr>{names}{cells}<td>{_lags(found)}</td></tr>"


def _lags(found: TopicOverview) -> str:
    if found.lags is None:
        return '<span class="bad">unavailable now</span>'
    shown = (f"{escape(group)}: {lag:,}" for group, lag in sorted(found.lags.items()))
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
    _refuse(exchange, error)


def _refuse(exchange: Exchange, error: TalosError) -> None:
    exchange.failure = type(error).__name__
    challenge = _CHALLENGE if isinstance(error, InvalidCredential) else b""
    again = RETRY_AFTER if isinstance(error, Unavailable) else b""
    exchange.reply_text(status_of(error), str(error), challenge + again + _HEADERS)

"""RestCalls: calls of the REST API that a page makes for the browser that asks for it.

A call is a complete request with the browser's own credentials, given to the gateway of REST in
this process. So it is authenticated, authorized, limited and audited like that of any client, and a
page can do nothing that its caller could not do with curl.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from opentalos.gateway.http.exchange import Exchange, Handler
from opentalos.gateway.http.reply_stream import ReplyStream
from opentalos.model.checks import json_text, without_body
from opentalos.model.errors import BadRequest, OutcomeUnknown
from opentalos.model.identity import PeerCertificate

PREFIX: Final = "/rest/v1/"
CALLS_MAX: Final = 200  # of one page
CALLS_AT_ONCE: Final = 8
CALL_S: Final = 12.0  # until the page reports that REST is too slow
# What says who asks, and from where. Not the headers of servers that forward.
_PASSED: Final[Sequence[bytes]] = (
    b"authorization", b"cookie", b"host", b"origin", b"sec-fetch-site", b"user-agent",
)  # fmt: skip
_READS: Final = ("GET", "HEAD")
_READING_POSTS: Final = (("rows", "scan"), ("rows", "get"))  # the last two parts of their paths
_SET_COOKIE: Final = re.compile(rb"^Set-Cookie: [^\r\n]*\r\n", re.MULTILINE)
_STATUS, _STATUS_END = 9, 12  # of a reply's head
_ERRORS, _TOO_SLOW, _BROKEN = 400, 504, 500

Query = Mapping[str, str | int | Sequence[str | int] | None]


class RestError(Exception):
    """REST rejected a call, or did not answer in time. ``detail`` is for the reader of the page."""

    def __init__(self, status: int, detail: str, call: str = "") -> None:
        super().__init__(detail)
        self.status, self.detail, self.call = status, detail, call


class RestCalls:
    """The calls of one page.

    Args:  serve: the gateway of REST; page: the browser's request.
    State: ``made``: what was called, for the foot of the page; ``failures``: what ``maybe`` could
    not read; ``cookies``: header lines that the page has to pass on.
    """

    def __init__(self, serve: Handler, page: Exchange) -> None:
        self._serve, self._page = serve, page
        self._places = asyncio.Semaphore(CALLS_AT_ONCE)
        self._count = 0
        self.proof = ""  # that the form sent, for what changes something
        self.own_proof = ""  # of the session, for POSTs that only read
        self.made: list[str] = []
        self.failures: list[RestError] = []
        self.cookies = b""

    async def get(self, *path: str, query: Query | None = None) -> Any:
        """The document at a path, whose parts are not encoded. Raises: RestError."""
        return await self.call("GET", path, query=query)

    async def maybe(
        self, *path: str, query: Query | None = None, absent: Sequence[int] = ()
    ) -> Any:
        """As ``get``; None if it cannot be read, which the page then says.

        Args: absent: statuses that mean that there is nothing for this caller: nothing is said.
        """
        try:
            return await self.get(*path, query=query)
        except RestError as error:
            if error.status == 401:  # the login is over: no part of the page can be shown
                raise
            if error.status not in absent:
                self.failures.append(error)
            return None

    async def post(self, *path: str, document: Any = None) -> Any:
        """Raises: RestError."""
        return await self.call("POST", path, document)

    async def look(self, *path: str, document: Any = None) -> Any:
        """What a POST finds that changes nothing, so that a link may lead to its result.

        Raises: RestError; ValueError: another path.
        """
        if path[-2:] not in _READING_POSTS:
            raise ValueError(f"{'/'.join(path)} is not known to change nothing")
        return await self.call("POST", path, document, headers={"X-CSRF-Token": self.own_proof})

    async def put(self, *path: str, document: Any = None) -> Any:
        """Raises: RestError."""
        return await self.call("PUT", path, document)

    async def patch(self, *path: str, document: Any = None) -> Any:
        """Raises: RestError."""
        return await self.call("PATCH", path, document)

    async def delete(self, *path: str) -> Any:
        """Raises: RestError."""
        return await self.call("DELETE", path)

    async def call(
        self,
        method: str,
        path: Sequence[str],
        document: Any = None,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The document of the reply; None: it has none. Raises: RestError."""
        url = PREFIX + "/".join(quote(part, safe="") for part in path) + _query_text(query or {})
        shown = f"{method} {url}"
        if shown not in self.made:
            self.made.append(shown)
        self._count += 1
        if self._count > CALLS_MAX:
            raise RestError(_BROKEN, f"this page needs more than {CALLS_MAX} calls", shown)
        async with self._places:
            request = self._request(method, url, document)
            for name, value in (headers or {}).items():
                request.exchange.headers[name.lower().encode()] = value.encode()
            status, body = await self._answer(request, shown)
        try:
            found = json.loads(body) if body.strip() else None
        except ValueError as error:
            raise RestError(_BROKEN, "the reply of REST is not JSON", shown) from error
        if status >= _ERRORS:
            raise RestError(status, _detail(found), shown)
        return found

    def _request(self, method: str, url: str, document: Any) -> "_Request":
        sent = self._page.headers
        headers: dict[bytes, bytes] = {name: sent[name] for name in _PASSED if name in sent}
        headers[b"x-request-id"] = self._page.request_id.encode()
        if method not in _READS and self.proof:
            headers[b"x-csrf-token"] = self.proof.encode()
        body = b""
        if document is not None:
            body = json_text(document).encode("utf-8", "surrogatepass")
            headers[b"content-type"] = b"application/json"
            headers[b"content-length"] = b"%d" % len(body)
        collector = _Collector(self._page)
        exchange = Exchange(collector, method.encode(), url.encode(), headers)
        exchange.body = body
        return _Request(exchange, collector)

    async def _answer(self, request: "_Request", shown: str) -> tuple[int, bytes]:
        exchange, collector = request
        try:
            self._serve(exchange)
            async with asyncio.timeout(CALL_S):
                status, body, lines = await collector.replied
        except TimeoutError:
            unknown = "" if exchange.method == b"GET" else "; it is unknown whether it was done"
            reason = f"the server did not answer within {CALL_S:.0f} s{unknown}"
            raise RestError(_TOO_SLOW, reason, shown) from None
        finally:
            collector.alive = False
            if exchange.late is not None:  # nobody waits any more: a read ends
                exchange.late(OutcomeUnknown("the page no longer waits"))
        for line in _SET_COOKIE.findall(lines):
            if line not in self.cookies:
                self.cookies += line
        return status, body


class _Collector:
    """Takes the reply of one call; to REST it is the connection of the browser."""

    def __init__(self, page: Exchange) -> None:
        self.alive = True
        self.secure, self.private = page.secure, page.private
        self.certificate: PeerCertificate | None = page.certificate
        self.peer, self.network = page.peer, page.network
        self.replied: asyncio.Future[tuple[int, bytes, bytes]] = (
            asyncio.get_running_loop().create_future()
        )

    def answer(self, exchange: Exchange, prefix: bytes, body: bytes, extra: bytes) -> None:
        if not self.replied.done():
            status = int(prefix[_STATUS:_STATUS_END])
            self.replied.set_result((status, body, prefix + b"\r\n" + extra))

    def answer_chunks(
        self, exchange: Exchange, prefix: bytes, chunks: Sequence[bytes | memoryview]
    ) -> None:
        self.answer(exchange, prefix, b"".join(chunks), b"")

    def answer_stream(self, exchange: Exchange, content_type: bytes, extra: bytes) -> ReplyStream:
        raise BadRequest("a page does not read streams; the browser does")

    def extend(self, seconds: float, *, waits: bool = False) -> None:
        """The page has its own limit."""

    def waits(self) -> None:
        """The page has its own limit."""


class _Request(NamedTuple):
    exchange: Exchange
    collector: _Collector


def _query_text(query: Query) -> str:
    """Lists are separated by commas, as REST takes them."""
    pairs = {
        name: value if isinstance(value, str | int) else ",".join(map(str, value))
        for name, value in query.items()
        if value is not None
    }
    return "?" + urlencode(pairs, safe=",") if pairs else ""


def _detail(problem: Any) -> str:
    if isinstance(problem, dict):
        detail = problem.get("detail") or problem.get("title") or "no reason was given"
        return without_body(str(detail))
    return "no reason was given"

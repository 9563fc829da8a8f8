"""The REST gateway: authenticates calls by key id and secret and calls the broker's use cases."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from opentalos.broker.broker import Broker
from opentalos.broker.figures.current import figures_of
from opentalos.broker.long_work import work_for
from opentalos.gateway.http.connection import JOIN_BYTES_MAX
from opentalos.gateway.http.exchange import Exchange, abandoned
from opentalos.gateway.http.reply_format import head
from opentalos.gateway.http.request_scope import request_scope
from opentalos.gateway.peer.forwarding import Forwarding, is_elsewhere
from opentalos.gateway.rest.routes import TABLE
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.credentials import challenge_of
from opentalos.gateway.rest.routing.errors import (
    MethodNotAllowed,
    Unusable,
    internal_problem,
    problem,
)
from opentalos.gateway.rest.routing.origin import check_origin
from opentalos.gateway.rest.routing.request import (
    document_of,
    headers_of,
    is_long,
    long_document_of,
    query_of,
)
from opentalos.gateway.rest.routing.route import JSON, Match, RouteTable, with_implied
from opentalos.gateway.session.callers import Callers
from opentalos.gateway.session.cookies import cookie_of
from opentalos.gateway.slots import Slot, Slots, tenant_of
from opentalos.model.errors import (
    InvalidCredential,
    PartitionNotExist,
    PartitionNotServing,
    TalosError,
    Unavailable,
)
from opentalos.model.identity import GUEST, Principal
from opentalos.wire.metrics.latency import Latency

PREFIX = b"/rest/v1/"
TASKS_MAX = 2_000  # concurrent REST calls including long polls, whole server
STREAMS_MAX = 500  # concurrent event streams, whole server
TASKS_KEPT, STREAMS_KEPT = 100, 20  # of them, for administrators
ANSWER_S = 15.0  # for a call that does not ask for more; a forwarded one may take 10 s
RETRY_AFTER_S = 1  # sent with rejections that may be retried
_JSON = JSON.encode()
_PROBLEM = b"application/problem+json"
_UNUSABLE = 422
_NO_STORE = b"Cache-Control: no-store\r\n"  # replies may contain secrets
_NO_CONTENT = 204
_WAITS = b"wait_s"  # a parameter of calls that wait for messages, whose latency says nothing

_log = logging.getLogger("opentalos.rest")


class RestGateway:
    """Serves everything below ``/rest/v1``.

    Args: forwarding: to the other servers of a cluster; None: a single server.
    """

    def __init__(
        self,
        broker: Broker,
        callers: Callers,
        forwarding: Forwarding | None = None,
        table: RouteTable = TABLE,
    ) -> None:
        broker.observing.health.figures = partial(figures_of, broker)
        self._broker, self._callers = broker, callers
        self._forwarding, self._table = forwarding, table
        self._calls = Slots("calls", TASKS_MAX, TASKS_KEPT)
        self._streams = Slots("streams", STREAMS_MAX, STREAMS_KEPT)
        self._tasks: set[asyncio.Task[None]] = set()
        self.read_s, self.write_s = Latency(), Latency()  # from request to reply

    def prefix_routes(self) -> list[tuple[bytes, Callable[[Exchange], None]]]:
        """Handlers by path prefix."""
        return [(PREFIX, self.serve)]

    async def drain(self, timeout_s: float) -> None:
        """Wait for calls under way, then cancel those that hang."""
        if self._tasks:
            _, hanging = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in hanging:
                task.cancel()

    def serve(self, exchange: Exchange) -> None:
        """Handler of a request below the prefix; it replies at once or later."""
        request_id = exchange.request_id.encode()
        if self._forwarding is not None and not self._forwarding.accept(exchange):
            return
        refuse = partial(_reply_problem, exchange, request_id)
        try:
            if exchange.method == b"OPTIONS":
                self._reply_options(exchange, request_id)
                return
            match = self._table.find(exchange.method.decode("latin-1"), _path(exchange))
            public = match.route.public
            if not (public and match.route.reads) and not exchange.forwarder:
                session = cookie_of(exchange) is not None  # who forwarded it checked it
                check_origin(exchange.method, exchange.headers, session=session)
            with request_scope(exchange):
                caller = GUEST if public else self._callers.at_once(exchange)
            slots = self._streams if match.route.streams else self._calls
            slot = slots.take(caller or GUEST, exchange.network)
        except TalosError as error:
            refuse(error)
            return
        if not match.route.streams and _WAITS not in exchange.query:
            exchange.timed = self.read_s if match.route.reads else self.write_s
        exchange.late = refuse
        exchange.extend(ANSWER_S)
        run = self._run(exchange, caller, slot, match, request_id)
        task = asyncio.get_running_loop().create_task(run)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(slot.free)
        if match.route.reads:  # cancelling a read changes nothing
            exchange.late = partial(_give_up, exchange, task, refuse)

    async def _run(
        self,
        exchange: Exchange,
        caller: Principal | None,
        slot: Slot,
        match: Match,
        request_id: bytes,
    ) -> None:
        try:
            with request_scope(exchange):
                if caller is None:
                    await self._callers.prepare(exchange)
                    caller = self._callers.caller(exchange)
                    slot.pass_to(caller, exchange.network)
                work_for(tenant_of(caller, exchange.network))
                call = await self._call(exchange, caller, match)
                await self._or_forward(exchange, partial(self._answer, call, match, request_id))
        except TalosError as error:
            _reply_problem(exchange, request_id, _as_answered(error, match))
        except Exception:
            fields = {"request": request_id.decode(), "route": match.route.path}
            _log.exception("REST call failed with an internal error", extra=fields)
            body = internal_problem(request_id.decode())
            exchange.failure = "internal"
            exchange.reply(head(500, _PROBLEM), body, _id_line(request_id))

    async def _or_forward(
        self, exchange: Exchange, answer_it: Callable[[], Awaitable[None]]
    ) -> None:
        """Answer, or forward to the server that owns the resource."""
        try:
            await answer_it()
        except TalosError as error:
            if self._forwarding is None or not is_elsewhere(exchange, error):
                raise
            if exchange.method == b"HEAD":
                raise PartitionNotServing(
                    "another server serves this resource; send GET, which is forwarded"
                ) from error
            await self._forwarding.elsewhere(exchange, error, answer_it)

    async def _call(self, exchange: Exchange, caller: Principal, match: Match) -> Call:
        """The checked request. Raises: BadRequest, ExcessivePending."""
        route = match.route
        query = query_of(route, exchange.query)
        headers = headers_of(route, exchange.headers)
        if is_long(exchange):
            async with self._broker.work.turn(caller.id) as turn:
                document, raw = await long_document_of(turn, route, exchange)
        else:
            document, raw = document_of(route, exchange)
        return Call(
            broker=self._broker,
            forwarding=self._forwarding,
            caller=caller,
            exchange=exchange,
            places=match.places,
            query=query,
            headers=headers,
            document=document,
            again=partial(self._callers.caller, exchange),
            callers=self._callers,
            raw=raw,
            table=self._table,
        )

    async def _answer(self, call: Call, match: Match, request_id: bytes) -> None:
        answer = await match.route.handler(call)
        if answer is None:
            return  # the handler streamed it
        status = answer.status or match.route.status
        extra = _NO_STORE + _id_line(request_id)
        if not match.route.public:
            extra += self._callers.renewal(call.exchange)
        for name, value in answer.headers:
            extra += f"{name}: {value}\r\n".encode()
        if answer.chunks:
            _reply_chunks(call.exchange, head(status, _JSON), extra, answer.chunks)
        else:
            call.exchange.reply(head(status, _JSON), _body(answer), extra)

    def _reply_options(self, exchange: Exchange, request_id: bytes) -> None:
        try:
            self._table.find("OPTIONS", _path(exchange))
        except MethodNotAllowed as found:
            extra = _allow_line(found) + _id_line(request_id)
            exchange.reply(head(_NO_CONTENT, _JSON), b"", extra)


def _path(exchange: Exchange) -> bytes:
    return exchange.path[len(PREFIX) :]


def _reply_chunks(exchange: Exchange, prefix: bytes, extra: bytes, chunks: Sequence[bytes]) -> None:
    size = sum(map(len, chunks))
    if size <= JOIN_BYTES_MAX:
        exchange.reply(prefix, b"".join(chunks), extra)
    elif exchange.method == b"HEAD":
        exchange.reply(prefix, bytes(size), extra)  # only its length is sent
    else:
        exchange.reply_chunks(prefix.replace(b"\r\n", b"\r\n" + extra, 1), chunks)


def _body(answer: Answer) -> bytes:
    if answer.document is None:
        return answer.text
    try:  # several times faster than json, with the same spaces
        return msgspec.json.format(msgspec.json.encode(answer.document), indent=0) + b"\n"
    except (TypeError, ValueError):  # such as text with half of a surrogate pair
        return json.dumps(answer.document).encode() + b"\n"


def _id_line(request_id: bytes) -> bytes:
    return b"X-Request-Id: %b\r\n" % request_id


def _allow_line(error: MethodNotAllowed) -> bytes:
    return f"Allow: {', '.join(with_implied(error.methods))}\r\n".encode()


def _give_up(
    exchange: Exchange,
    task: asyncio.Task[None],
    refuse: Callable[[TalosError], None],
    error: TalosError,
) -> None:
    task.cancel()
    if not abandoned(exchange):
        refuse(error)


def _as_answered(error: TalosError, match: Match) -> TalosError:
    """404 is for what the path names; a missing partition named in the body is 422."""
    in_body = match.route.body is not None and "partition" not in match.places
    if isinstance(error, PartitionNotExist) and in_body and _UNUSABLE in match.route.statuses:
        return Unusable(str(error))
    return error


def _reply_problem(exchange: Exchange, request_id: bytes, error: TalosError) -> None:
    status, body = problem(error, request_id.decode())
    exchange.failure = exchange.failure or type(error).__name__
    extra = _NO_STORE + _id_line(request_id)
    if isinstance(error, InvalidCredential):
        extra += challenge_of(exchange.headers)
    if isinstance(error, MethodNotAllowed):
        extra += _allow_line(error)
    if isinstance(error, Unavailable):
        extra += b"Retry-After: %d\r\n" % RETRY_AFTER_S
    exchange.reply(head(status, _PROBLEM), body, extra)

"""The Talos gateway: authenticates and decodes Thrift calls and passes them to the broker.

putMessage and getMessage in the compact protocol take the hot path: no task, no generic codec
(docs/internals/hot-path.md#rules). All other calls run in tasks.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from opentalos.broker.broker import Broker
from opentalos.broker.messaging.messages import GetQuery, GetResult
from opentalos.broker.messaging.reading.talos_blocks import holds_batches
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.reply_format import head
from opentalos.gateway.peer.forwarding import Forwarding, is_elsewhere
from opentalos.gateway.thrift_http.authentication import Authenticator, DigestNeeded
from opentalos.gateway.thrift_http.call_tasks import CallTasks
from opentalos.gateway.thrift_http.handlers.context import CallContext, Handler, Handlers
from opentalos.gateway.thrift_http.replies import (
    STATUS_OK,
    CallForm,
    ReadCall,
    encoded,
    form_of_call,
    read_call,
    reply_error,
    reply_no_caller,
)
from opentalos.model.errors import BadRequest, ExcessivePending, TalosError
from opentalos.model.identity import Principal
from opentalos.wire._generated.talos import SERVICES
from opentalos.wire.metrics.latency import Latency
from opentalos.wire.signing import MAC_BODY_BYTES_MIN, MAC_OFFER, md5_of
from opentalos.wire.thrift import hot
from opentalos.wire.thrift.error import ApplicationErrorKind
from opentalos.wire.thrift.message import ThriftProtocol, encode_exception
from opentalos.wire.thrift.spec import MethodSpec, ServiceSpec

ADMIN_BODY_BYTES_MAX = 1 << 20  # of a call to any service except messages
DIGESTS_MAX = 1_000  # large requests whose digest is calculated; their bytes are bounded as well
_QUERY_PAIRS_MAX = 16
# Name prefixes of calls that change nothing; they may be cancelled when they hang.
_READS = ("get", "query", "describe", "list", "lookup", "match", "check")

_COMPACT = ThriftProtocol.COMPACT.value.encode()
_COMPACT_OK = head(STATUS_OK, _COMPACT)
_COMPACT_OFFER = head(STATUS_OK, _COMPACT, b"%b: poly1305\r\n" % MAC_OFFER.encode())
_PUT = SERVICES["MessageService"].methods["putMessage"]
_GET = SERVICES["MessageService"].methods["getMessage"]


class ThriftGateway:
    """Serves the five Talos services; ``routes`` are for the HTTP server.

    Args: forwarding: to the other servers of a cluster; None: a single server.
    """

    def __init__(
        self,
        broker: Broker,
        authenticator: Authenticator,
        handlers: Handlers,
        forwarding: Forwarding | None = None,
    ) -> None:
        self._broker = broker
        self._messages = broker.messages
        self._authenticator = authenticator
        self._handlers = handlers
        self._forwarding = forwarding
        self._tasks = CallTasks(reply_error)
        self._digests: set[asyncio.Task[None]] = set()
        self.puts = 0
        self.gets = 0
        self.calls = 0  # all others
        self.put_s, self.get_s = Latency(), Latency()  # from request to reply

    @property
    def failures(self) -> int:
        """Requests answered with an error."""
        return self._tasks.failures

    def routes(self) -> dict[bytes, Callable[[Exchange], None]]:
        """Handler by path."""
        routes: dict[bytes, Callable[[Exchange], None]] = {
            service.path.encode(): partial(self._serve, service) for service in SERVICES.values()
        }
        routes[SERVICES["MessageService"].path.encode()] = self._serve_message
        return routes

    # --- entry ---------------------------------------------------------------------------------

    def _serve_message(self, exchange: Exchange) -> None:
        """The data path: putMessage and cached getMessage by callbacks alone."""
        try:
            caller = self._caller(exchange)
        except DigestNeeded as needed:
            self._digest(exchange, needed)
            return
        if caller is None:
            return
        if exchange.headers.get(b"content-type") == _COMPACT:
            put = hot.decode_put(exchange.body, caller.number)
            if put is not None:
                self._put(exchange, caller, put)
                return
            get = hot.decode_get(exchange.body)
            if get is not None:
                self._get(exchange, caller, get)
                return
        self._call(exchange, caller, SERVICES["MessageService"])

    def _serve(self, service: ServiceSpec, exchange: Exchange) -> None:
        if exchange.body_bytes > ADMIN_BODY_BYTES_MAX:
            limit = ADMIN_BODY_BYTES_MAX
            exchange.reply_text(413, f"calls of {service.name} may have at most {limit} bytes")
            return
        caller = self._caller(exchange)
        if caller is not None:
            self._call(exchange, caller, service)

    def _caller(self, exchange: Exchange) -> Principal | None:
        """The authenticated principal, or None if the request was rejected."""
        try:
            if exchange.method != b"POST":
                raise BadRequest("Talos calls use POST")
            forwarding = None if exchange.body_md5 else self._forwarding  # asked before
            if forwarding is not None and not forwarding.accept(exchange):
                self._tasks.failures += 1
                return None
            return self._authenticator.caller(exchange)
        except TalosError as error:
            reply_no_caller(exchange, error)
        self._tasks.failures += 1
        return None

    def _digest(self, exchange: Exchange, needed: DigestNeeded) -> None:
        """Calculate the digest of a large body on a thread, then begin again."""
        if len(self._digests) >= DIGESTS_MAX:
            error = ExcessivePending(f"too many large requests: limit {DIGESTS_MAX:,}; retry later")
            reply_no_caller(exchange, error)
            self._tasks.failures += 1
            return
        form = form_of_call(exchange, SERVICES["MessageService"])
        # Also if the client is gone.
        exchange.late = (
            partial(reply_no_caller, exchange)
            if form is None
            else partial(self._tasks.refuse, exchange, form)
        )
        task = asyncio.get_running_loop().create_task(self._digested(exchange, needed.caller))
        self._digests.add(task)
        task.add_done_callback(self._digests.discard)

    async def _digested(self, exchange: Exchange, caller: str) -> None:
        async with self._broker.work.turn(caller, patient=True) as turn:
            if not exchange.answered:
                exchange.body_md5 = await turn.off_loop(md5_of, exchange.body)
        if not exchange.answered:
            self._serve_message(exchange)

    # --- hot path ------------------------------------------------------------------------------

    def _put(self, exchange: Exchange, caller: Principal, put: hot.HotPut) -> None:
        self.puts += 1
        exchange.timed = self.put_s
        waiting = _WaitingPut(self, exchange, caller, put)
        exchange.late = waiting.late
        try:
            self._messages.put(caller, put, (put.block,), waiting.answer)
        except TalosError as error:
            self._put_failed(waiting, error)
        except Exception as error:
            self._tasks.broken(exchange, _hot_form(_PUT, put.seqid), error)

    def _put_failed(self, waiting: "_WaitingPut", error: TalosError) -> None:
        exchange, put = waiting.exchange, waiting.put
        again = partial(self._put_again, exchange, waiting.caller, put)
        self._hot_error(exchange, (_hot_form(_PUT, put.seqid), waiting.caller), error, again)

    async def _put_again(self, exchange: Exchange, caller: Principal, put: hot.HotPut) -> None:
        """The same put in a task, once this server knows better what it serves."""
        done: asyncio.Future[tuple[int, TalosError | None]]
        done = asyncio.get_running_loop().create_future()

        def answer(base_offset: int, error: TalosError | None) -> None:
            if not done.done():
                done.set_result((base_offset, error))

        self._messages.put(caller, put, (put.block,), answer)
        base_offset, error = await done
        if error is not None:
            raise error
        reply = hot.put_reply(put.seqid, put.sequence_id, base_offset, transferred=True)
        exchange.reply(_COMPACT_OK, reply)

    def _hot_error(
        self,
        exchange: Exchange,
        call: tuple[CallForm, Principal],
        error: TalosError,
        again: Callable[[], Awaitable[None]],
    ) -> asyncio.Task[None] | None:
        """Refuse, or see in a task whether another server can answer."""
        form, caller = call
        if self._forwarding is None or not is_elsewhere(exchange, error):
            self._tasks.refuse(exchange, form, error)
            return None
        elsewhere = self._forwarding.elsewhere(exchange, error, again)
        return self._tasks.spawn(exchange, form, caller, elsewhere)

    def _get(self, exchange: Exchange, caller: Principal, get: hot.HotGet) -> None:
        self.gets += 1
        exchange.timed = self.get_s
        query = GetQuery(
            get.resource, get.partition, get.offset, get.messages_max, get.bytes_max,
            get.deadline_ms,
        )  # fmt: skip
        later = partial(self._get_later, exchange, caller, get, query)
        try:
            result = self._messages.get_cached(caller, query)
        except TalosError as error:
            form = _hot_form(_GET, get.seqid)
            task = self._hot_error(exchange, (form, caller), error, later)
            self._tasks.end_when_late(exchange, form, task)
            return
        except Exception as error:
            self._tasks.broken(exchange, _hot_form(_GET, get.seqid), error)
            return
        if result is None or holds_batches(result.blocks):
            if result is not None:
                later = partial(self._reply_readable, exchange, caller, get, (query, result))
            form = _hot_form(_GET, get.seqid)
            task = self._tasks.spawn(exchange, form, caller, self._or_elsewhere(exchange, later))
            self._tasks.end_when_late(exchange, form, task)
            exchange.waits()
        elif result.hold_s > 0.0:
            loop = asyncio.get_running_loop()
            loop.call_later(result.hold_s, _reply_get, exchange, get, result)
        else:
            _reply_get(exchange, get, result)

    async def _get_later(
        self, exchange: Exchange, caller: Principal, get: hot.HotGet, query: GetQuery
    ) -> None:
        found = (query, await self._messages.get(caller, query))
        await self._reply_readable(exchange, caller, get, found)

    async def _reply_readable(
        self,
        exchange: Exchange,
        caller: Principal,
        get: hot.HotGet,
        found: tuple[GetQuery, GetResult],
    ) -> None:
        """Reply with what clients of this protocol can decode."""
        query, result = found
        if result.hold_s > 0.0:
            await asyncio.sleep(result.hold_s)
        if holds_batches(result.blocks):
            result = await self._broker.reads.talos_blocks.readable(caller, query, result)
        _reply_get(exchange, get, result)

    # --- every other call ----------------------------------------------------------------------

    def _call(self, exchange: Exchange, caller: Principal, service: ServiceSpec) -> None:
        self.calls += 1
        read = read_call(exchange, service)
        if read is None:
            self._tasks.failures += 1
            return
        form, method = read.form, read.form.method
        if method is _PUT or method is _GET:
            exchange.timed = self.put_s if method is _PUT else self.get_s
        handler = self._handlers.get(service.name, {}).get(method.name)
        if handler is None:
            self._tasks.failures += 1
            kind, text = ApplicationErrorKind.UNKNOWN_METHOD, f"no handler for {method.name}"
            body = encode_exception(form.protocol, method.name, form.seqid, kind, text)
            exchange.reply(head(STATUS_OK, form.content_type), body)
            return
        run = partial(self._run, exchange, caller, read, handler)
        task = self._tasks.spawn(exchange, form, caller, self._or_elsewhere(exchange, run))
        if method.name.startswith(_READS):
            self._tasks.end_when_late(exchange, form, task)
        if method is _GET:
            exchange.waits()

    async def _or_elsewhere(self, exchange: Exchange, call: Callable[[], Awaitable[None]]) -> None:
        """Run a call, or forward it to the server that owns the resource."""
        try:
            await call()
        except TalosError as error:
            if self._forwarding is None or not is_elsewhere(exchange, error):
                raise
            await self._forwarding.elsewhere(exchange, error, call)

    async def _run(
        self, exchange: Exchange, caller: Principal, read: ReadCall, handler: Handler
    ) -> None:
        form, work = read.form, self._broker.work
        call = await self._tasks.whole_call(exchange, read, work, caller)
        if call is None:
            return
        hint = _query_value(exchange.query, b"type")
        context = CallContext(
            peer=exchange.peer, transferred=bool(exchange.forwarder), rpc_hint=hint
        )
        result = await handler(self._broker, caller, call.request, context)
        body = await encoded(form, result, work, caller)
        exchange.reply(head(STATUS_OK, form.content_type), body)

    async def drain(self, timeout_s: float) -> None:
        """Wait for calls under way, then cancel those that hang."""
        await self._tasks.drain(timeout_s)


class _WaitingPut:
    """A put between its request and its reply: half the objects of a closure, and no cells."""

    __slots__ = ("_gateway", "caller", "exchange", "put")

    def __init__(
        self, gateway: ThriftGateway, exchange: Exchange, caller: Principal, put: hot.HotPut
    ) -> None:
        self._gateway, self.exchange, self.caller, self.put = gateway, exchange, caller, put

    def answer(self, base_offset: int, error: TalosError | None) -> None:
        """What the log calls once."""
        if error is not None:
            self._gateway._put_failed(self, error)
            return
        exchange, put = self.exchange, self.put
        transferred = bool(exchange.forwarder)
        reply = hot.put_reply(put.seqid, put.sequence_id, base_offset, transferred=transferred)
        # Only senders of large bodies learn that these need no MD5.
        small = exchange.body_bytes < MAC_BODY_BYTES_MIN
        exchange.reply(_COMPACT_OK if small else _COMPACT_OFFER, reply)

    def late(self, error: TalosError) -> None:
        """It takes too long."""
        self._gateway._put_failed(self, error)


def _hot_form(method: MethodSpec, seqid: int) -> CallForm:
    return CallForm(ThriftProtocol.COMPACT, _COMPACT, method, seqid)


def _reply_get(exchange: Exchange, get: hot.HotGet, result: GetResult) -> None:
    transferred = bool(exchange.forwarder)
    unhandled = hot.UNKNOWN if result.unhandled is None else result.unhandled
    chunks = hot.get_reply_chunks(
        get.seqid, get.sequence_id, result.blocks, unhandled, transferred=transferred
    )
    exchange.reply_chunks(_COMPACT_OK, chunks)


def _query_value(query: bytes, name: bytes) -> str:
    """A parameter of the query, without decoding; "" if it is absent."""
    for pair in query.split(b"&", _QUERY_PAIRS_MAX):
        key, _, value = pair.partition(b"=")
        if key == name:
            return value.decode("latin-1")
    return ""

"""SDS calls from HTTP requests: authenticated, decoded, handed to the broker, answered.

Any server answers any call: the broker passes a mutation on to the server that owns its shard.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from opentalos.broker.tables.api.values import Written
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.reply_format import head
from opentalos.gateway.sds_http.authentication import SdsAuthenticator, Sender
from opentalos.gateway.sds_http.changes import changes
from opentalos.gateway.sds_http.errors import exception_of
from opentalos.gateway.sds_http.handlers import HANDLERS, Handlers, Services
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.gateway.thrift_http.call_tasks import CallTasks
from opentalos.gateway.thrift_http.replies import (
    STATUS_OK,
    CallForm,
    ReadCall,
    encoded,
    read_call,
    reply_no_caller,
)
from opentalos.model.errors import BadRequest, TalosError
from opentalos.wire._generated.sds import SERVICES
from opentalos.wire.metrics.latency import Latency
from opentalos.wire.sds.hot import decode_hot, put_reply
from opentalos.wire.sds.long_call import check_values
from opentalos.wire.thrift.error import ApplicationErrorKind
from opentalos.wire.thrift.message import (
    Call,
    ThriftProtocol,
    encode_error,
    encode_exception,
)
from opentalos.wire.thrift.spec import ServiceSpec

BODY_BYTES_MAX: Final = 512 << 10  # sds.thrift MAX_CONTENT_SIZE
# Clients wait 10 s for a call and 30 s for one of administration.
ANSWER_S: Final = 9.0
ADMIN_ANSWER_S: Final = 28.0
_READ_CALLS: Final = ("get", "scan", "scanAll")
_TABLES: Final = SERVICES["TableService"]
_PUT: Final = _TABLES.methods["put"]
_BINARY: Final = ThriftProtocol.BINARY.value.encode()
_BINARY_OK: Final = head(STATUS_OK, _BINARY)
_WRITE_CALLS: Final = ("put", "increment", "remove", "batch", "partialAllowedBatch", "realRemove")


class SdsGateway:
    """Serves the three SDS services; ``routes`` are for the HTTP server."""

    def __init__(
        self, services: Services, authenticator: Authenticator, handlers: Handlers = HANDLERS
    ) -> None:
        self._services, self._handlers = services, handlers
        self._authenticator = SdsAuthenticator(authenticator)
        self._tasks = CallTasks(reply_error, unknown_in_form=True, in_status=True)
        self.calls: Counter[str] = Counter()  # by RPC
        self.read_s, self.write_s = Latency(), Latency()  # from request to reply

    @property
    def failures(self) -> int:
        """Requests answered with an error."""
        return self._tasks.failures

    def routes(self) -> dict[bytes, Callable[[Exchange], None]]:
        """Handler by path."""
        return {
            service.path.encode(): partial(self._serve, service) for service in SERVICES.values()
        }

    async def drain(self, timeout_s: float) -> None:
        """Wait for the calls under way, then cancel those whose clients no longer wait."""
        await self._tasks.drain(timeout_s)

    def _serve(self, service: ServiceSpec, exchange: Exchange) -> None:
        if exchange.body_bytes > BODY_BYTES_MAX:
            exchange.reply_text(413, f"a call may have {BODY_BYTES_MAX} bytes", in_status=True)
            self._tasks.failures += 1
            return
        try:
            if exchange.method != b"POST":
                raise BadRequest("an SDS call is a POST")
            sender = self._authenticator.caller(exchange)
        except TalosError as error:
            self._no_caller(exchange, error)
            return
        hot = _read_hot(exchange, service)
        read = hot or read_call(
            exchange, service, ThriftProtocol.BINARY, partial=True, in_status=True
        )
        if read is None:
            self._tasks.failures += 1
            return
        if read.call is not None and not self._may_run(exchange, sender, read.call):
            return
        if hot is not None and hot.form.method is _PUT and self._put(exchange, sender, hot):
            return
        self._note(exchange, service, read.form.method.name)
        self._start(exchange, sender, service, read)

    def _no_caller(self, exchange: Exchange, error: TalosError) -> None:
        reply_no_caller(exchange, error, in_status=True)
        self._tasks.failures += 1

    def _may_run(self, exchange: Exchange, sender: Sender, call: Call) -> bool:
        """Whether this is no copy of a call that changed something; a copy is refused here."""
        if sender.once is None or not changes(call):
            return True
        try:
            self._authenticator.check_once(exchange, sender.once)
        except TalosError as error:
            self._no_caller(exchange, error)
            return False
        return True

    def _put(self, exchange: Exchange, sender: Sender, read: ReadCall) -> bool:
        """A put without a task, by callbacks; False: nothing was done, and it needs a task."""
        form = read.form
        assert read.call is not None
        request = read.call.arguments[0]

        def answer(written: Written | TalosError | None) -> None:
            if isinstance(written, Written):
                exchange.reply(_BINARY_OK, put_reply(form.seqid, success=written.success))
            elif written is not None:
                self._tasks.refuse(exchange, form, written)
            elif not exchange.answered:
                self._start(exchange, sender, _TABLES, read)

        try:
            if not self._services.put_fast_path.put(
                sender.caller, request.tableName, request.record, answer
            ):
                return False
        except Exception as error:
            self._tasks.broken(exchange, form, error)
            return True
        self._note(exchange, _TABLES, "put")
        exchange.late = partial(self._tasks.refuse, exchange, form)
        return True

    def _note(self, exchange: Exchange, service: ServiceSpec, rpc: str) -> None:
        """Count a call, time it, and bound it by the time that its client waits."""
        self.calls[rpc] += 1
        if rpc in _READ_CALLS:
            exchange.timed = self.read_s
        elif rpc in _WRITE_CALLS:
            exchange.timed = self.write_s
        exchange.extend(ADMIN_ANSWER_S if service.name == "AdminService" else ANSWER_S)

    def _start(
        self, exchange: Exchange, sender: Sender, service: ServiceSpec, read: ReadCall
    ) -> None:
        """Run a call in a task."""
        run = self._run(exchange, sender, service, read)
        task = self._tasks.spawn(exchange, read.form, sender.caller, run)
        # Such a call may be cancelled when it hangs; of one that is not decoded it is not known.
        if read.call is not None and not changes(read.call):
            self._tasks.end_when_late(exchange, read.form, task)

    async def _run(
        self, exchange: Exchange, sender: Sender, service: ServiceSpec, read: ReadCall
    ) -> None:
        form, work, caller = read.form, self._services.work, sender.caller
        judged = read.call is not None  # before this task began
        call = await self._tasks.whole_call(exchange, read, work, caller, check_values)
        # Without a call nothing was done, so the signature is not used up either.
        if call is None or not (judged or self._may_run(exchange, sender, call)):
            return
        handler = self._handlers[service.name][form.method.name]
        result = await handler(self._services, caller, call.arguments)
        body = await encoded(form, result, work, caller)
        exchange.reply(head(STATUS_OK, form.content_type), body)


def _read_hot(exchange: Exchange, service: ServiceSpec) -> ReadCall | None:
    """A call of the plain form that most have; None: for the generic codec."""
    if service is not _TABLES or exchange.headers.get(b"content-type") != _BINARY:
        return None
    call = decode_hot(exchange.body)
    if call is None:
        return None
    return ReadCall(CallForm(ThriftProtocol.BINARY, _BINARY, call.method, call.seqid), call)


def reply_error(exchange: Exchange, form: CallForm, error: TalosError) -> None:
    """Answer with the declared exception; clients take every other status for a lost call."""
    exchange.failure = type(error).__name__
    if form.method.error is None:
        kind = ApplicationErrorKind.INTERNAL_ERROR
        body = encode_exception(form.protocol, form.method.name, form.seqid, kind, str(error))
    else:
        exception = exception_of(error, exchange.request_id)
        body = encode_error(form.protocol, form.method, form.seqid, exception)
    exchange.reply(head(STATUS_OK, form.content_type), body)

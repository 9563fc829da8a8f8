"""What is common to Thrift calls over HTTP: reading one, and answering in the form it needs."""

import time
from collections.abc import Callable
from functools import partial as bound
from typing import Any, NamedTuple

from opentalos.broker.long_work import LongWork
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.reply_format import RETRY_AFTER, head
from opentalos.gateway.thrift_http.errors import form_of, text_of
from opentalos.model.errors import (
    AttemptsExceeded,
    ClockSkewed,
    InvalidCredential,
    TalosError,
    Unavailable,
)
from opentalos.model.identity import Principal
from opentalos.wire._generated.common import ErrorCode, GalaxyTalosException
from opentalos.wire.thrift.error import ApplicationError, LongMessage, SchemaMismatch, ThriftError
from opentalos.wire.thrift.message import (
    Call,
    LongCall,
    Pause,
    ThriftProtocol,
    decode_call,
    decode_head,
    decode_short_call,
    encode_error,
    encode_exception,
    encode_reply,
    encode_short_reply,
    protocol_of,
)
from opentalos.wire.thrift.spec import MethodSpec, ServiceSpec

STATUS_OK = 200
_JSON_ALIAS = b"application/x-thrift"
_ECHOED = {protocol.value.encode(): protocol for protocol in ThriftProtocol}
_ECHOED[_JSON_ALIAS] = ThriftProtocol.JSON
_NO_METHOD = MethodSpec("", (), None, None)  # of a request that names none


class CallForm(NamedTuple):
    """What a reply repeats of its call."""

    protocol: ThriftProtocol
    content_type: bytes
    method: MethodSpec
    seqid: int


Check = Callable[[Call, Pause], Call]


class ReadCall:
    """A request whose method is known; its arguments too, unless they take long to decode or do not
    fit the definitions."""

    __slots__ = ("_decode", "call", "form")

    def __init__(
        self, form: CallForm, call: Call | None, decode: Callable[..., Call] | None = None
    ) -> None:
        self.form, self.call, self._decode = form, call, decode

    async def complete(self, work: LongWork, caller: Principal, check: Check | None = None) -> Call:
        """Decode the arguments in pieces. Raises: ThriftError.

        Args: check: what else is done with them in pieces; None: nothing.
        """
        decode = self._decode
        assert decode is not None
        if check is not None:
            decode = bound(_decoded, decode, check)
        # How many wait is bounded by the places for calls, and their bytes by the body budget.
        async with work.turn(caller.id, patient=True) as turn:
            call = self.call = await turn.in_pieces(lambda pause: decode(pause=pause))
        return call


def read_call(
    exchange: Exchange,
    service: ServiceSpec,
    default: ThriftProtocol | None = None,
    *,
    partial: bool = False,
    in_status: bool = False,
) -> ReadCall | None:
    """Decode a request; None if it was answered with why it is no call.

    Args: default: of a request without a content type; None: such a one is refused. partial:
    arguments may be missing. in_status: as ``Exchange.reply_text`` has it.
    """
    spoken = _spoken(exchange, default)
    if spoken is None:
        exchange.reply_text(400, "Content-Type names no Thrift protocol", in_status=in_status)
        return None
    protocol, content_type = spoken
    try:
        call = decode_short_call(protocol, service, exchange.body, partial=partial)
    except LongCall as long:
        method, seqid = long.method, long.seqid
    except SchemaMismatch:  # decoded again in a task, which answers as the method declares
        method, seqid = decode_head(protocol, service, exchange.body)
    except ThriftError as error:
        form = CallForm(protocol, content_type, _NO_METHOD, 0)
        reply_no_call(exchange, form, error, in_status=in_status)
        return None
    else:
        return ReadCall(CallForm(protocol, content_type, call.method, call.seqid), call)
    decode = bound(decode_call, protocol, service, exchange.body, partial=partial)
    return ReadCall(CallForm(protocol, content_type, method, seqid), None, decode)


def form_of_call(exchange: Exchange, service: ServiceSpec) -> CallForm | None:
    """What replies repeat, from the first bytes of a request; None: it is no call."""
    spoken = _spoken(exchange, None)
    if spoken is None:
        return None
    try:
        return CallForm(*spoken, *decode_head(spoken[0], service, exchange.body))
    except ThriftError:
        return None


def _spoken(
    exchange: Exchange, default: ThriftProtocol | None
) -> tuple[ThriftProtocol, bytes] | None:
    """Protocol of a request, and content type of its reply."""
    sent = exchange.headers.get(b"content-type", b"")
    protocol = _ECHOED.get(sent) or protocol_of(sent.decode("latin-1"))
    if protocol is None and not sent:
        protocol = default
    if protocol is None:
        return None
    # What was sent if it is one of the known spellings.
    return protocol, sent if sent in _ECHOED else protocol.value.encode()


def _decoded(decode: Callable[..., Call], check: Check, pause: Pause) -> Call:
    return check(decode(pause=pause), pause)


async def encoded(form: CallForm, result: Any, work: LongWork, caller: Principal) -> bytes:
    """The reply to a call that succeeded, made in pieces if it is long."""
    try:
        return encode_short_reply(form.protocol, form.method, form.seqid, result)
    except LongMessage:
        encode = bound(encode_reply, form.protocol, form.method, form.seqid, result)
    async with work.turn(caller.id, patient=True) as turn:
        try:
            return await turn.in_pieces(lambda pause: encode(pause=pause))
        except Unavailable:  # no thread; what was done must not be reported as not done
            return encode()


def reply_no_call(
    exchange: Exchange, form: CallForm, error: ThriftError, *, in_status: bool = False
) -> None:
    """Answer a request that cannot be decoded; its method may not be known."""
    if isinstance(error, ApplicationError):
        body = encode_exception(form.protocol, error.name, error.seqid, error.kind, error.text)
        exchange.reply(head(STATUS_OK, form.content_type), body)
    else:
        reply_refusal(exchange, error, in_status=in_status)


def reply_error(exchange: Exchange, call: CallForm, error: TalosError) -> None:
    """Answer with the declared exception; never raises."""
    form = form_of(error)
    exchange.failure = type(error).__name__
    exception = GalaxyTalosException(errorCode=ErrorCode(form.code), errMsg=text_of(error, form))
    body = encode_error(call.protocol, call.method, call.seqid, exception)
    exchange.reply(head(form.status, call.content_type), body)


def reply_refusal(
    exchange: Exchange, error: TalosError, extra: bytes = b"", *, in_status: bool = False
) -> None:
    """Answer a request that is no call yet: plain text with the status of the error."""
    form = form_of(error)
    exchange.failure = type(error).__name__
    status = form.status if form.status != STATUS_OK else 400
    exchange.reply_text(status, str(error), extra, in_status=in_status)


def reply_no_caller(exchange: Exchange, error: TalosError, *, in_status: bool = False) -> None:
    """Answer a request that failed authentication; for clock skew, with the server's time."""
    extra = b""
    if isinstance(error, ClockSkewed):
        extra = b"X-Xiaomi-Timestamp: %d\r\n" % int(time.time())
    elif isinstance(error, InvalidCredential):
        extra = b"WWW-Authenticate: Galaxy-V3\r\n"
    elif isinstance(error, AttemptsExceeded):
        extra = RETRY_AFTER
    reply_refusal(exchange, error, extra, in_status=in_status)

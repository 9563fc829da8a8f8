"""What is common to Thrift calls over HTTP: reading one, and answering in the form it needs."""

import time
from typing import NamedTuple

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.reply_format import RETRY_AFTER, head
from opentalos.gateway.thrift_http.errors import form_of, text_of
from opentalos.model.errors import AttemptsExceeded, ClockSkewed, InvalidCredential, TalosError
from opentalos.wire._generated.common import ErrorCode, GalaxyTalosException
from opentalos.wire.thrift.error import ApplicationError, ThriftError
from opentalos.wire.thrift.message import (
    Call,
    ThriftProtocol,
    decode_call,
    encode_error,
    encode_exception,
    protocol_of,
)
from opentalos.wire.thrift.spec import MethodSpec, ServiceSpec

STATUS_OK = 200
_JSON_ALIAS = b"application/x-thrift"
_ECHOED = {protocol.value.encode(): protocol for protocol in ThriftProtocol}
_ECHOED[_JSON_ALIAS] = ThriftProtocol.JSON


class CallForm(NamedTuple):
    """What a reply repeats of its call."""

    protocol: ThriftProtocol
    content_type: bytes
    method: MethodSpec
    seqid: int


def read_call(
    exchange: Exchange,
    service: ServiceSpec,
    default: ThriftProtocol | None = None,
    *,
    partial: bool = False,
    in_status: bool = False,
) -> tuple[Call, CallForm] | None:
    """Decode a request; None if it was answered with why it is no call.

    Args: default: of a request without a content type; None: such a one is refused. partial:
    arguments may be missing. in_status: as ``Exchange.reply_text`` has it.
    """
    sent = exchange.headers.get(b"content-type", b"")
    protocol = _ECHOED.get(sent) or protocol_of(sent.decode("latin-1"))
    if protocol is None and not sent:
        protocol = default
    if protocol is None:
        exchange.reply_text(400, "Content-Type names no Thrift protocol", in_status=in_status)
        return None
    # The reply's: what was sent if it is one of the known spellings.
    content_type = sent if sent in _ECHOED else protocol.value.encode()
    try:
        call = decode_call(protocol, service, exchange.body, partial=partial)
    except ApplicationError as error:
        body = encode_exception(protocol, error.name, error.seqid, error.kind, error.text)
        exchange.reply(head(STATUS_OK, content_type), body)
        return None
    except ThriftError as error:
        reply_refusal(exchange, error, in_status=in_status)
        return None
    return call, CallForm(protocol, content_type, call.method, call.seqid)


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

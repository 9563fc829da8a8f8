"""Thrift replies in the form that each error needs."""

from typing import NamedTuple

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.reply_format import head
from opentalos.gateway.thrift_http.errors import form_of, text_of
from opentalos.model.errors import TalosError
from opentalos.wire._generated.common import ErrorCode, GalaxyTalosException
from opentalos.wire.thrift.message import ThriftProtocol, encode_error
from opentalos.wire.thrift.spec import MethodSpec

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


def echoed_type(sent: bytes, protocol: ThriftProtocol) -> bytes:
    """Content type of the reply: what was sent if it is one of the known spellings."""
    return sent if sent in _ECHOED else protocol.value.encode()


def known_protocol(sent: bytes) -> ThriftProtocol | None:
    """Protocol of an exactly known spelling."""
    return _ECHOED.get(sent)


def reply_error(exchange: Exchange, call: CallForm, error: TalosError) -> None:
    """Answer with the declared exception; never raises."""
    form = form_of(error)
    exchange.failure = type(error).__name__
    exception = GalaxyTalosException(errorCode=ErrorCode(form.code), errMsg=text_of(error, form))
    body = encode_error(call.protocol, call.method, call.seqid, exception)
    exchange.reply(head(form.status, call.content_type), body)


def reply_refusal(exchange: Exchange, error: TalosError, extra: bytes = b"") -> None:
    """Answer a request that is no call yet: plain text with the status of the error."""
    form = form_of(error)
    exchange.failure = type(error).__name__
    status = form.status if form.status != STATUS_OK else 400
    exchange.reply_text(status, str(error), extra)

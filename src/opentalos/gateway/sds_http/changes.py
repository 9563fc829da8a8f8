"""Whether an SDS call changes anything: such a call is never cancelled, and never repeated."""

from typing import Final

from opentalos.gateway.http.exchange import Exchange
from opentalos.wire._generated.sds import BatchOp
from opentalos.wire.thrift.error import ApplicationError, ThriftError
from opentalos.wire.thrift.message import Call, ThriftProtocol, decode_call, protocol_of
from opentalos.wire.thrift.spec import ServiceSpec

_READS: Final = ("get", "describe", "find", "scan")  # how the names of such calls begin
_BATCHES: Final = ("batch", "partialAllowedBatch")


def changes(call: Call) -> bool:
    """Whether the call may change something."""
    rpc, request = call.method.name, call.request
    if rpc in _BATCHES and request is not None:
        return any(item.action != BatchOp.GET for item in request.items or ())
    if rpc == "scan":
        return request is not None and request.action is not None
    return not rpc.startswith(_READS)


def request_changes(service: ServiceSpec, exchange: Exchange) -> bool:
    """The same of a request that is not decoded yet; an unreadable one changes nothing."""
    sent = exchange.headers.get(b"content-type", b"").decode("latin-1")
    protocol = protocol_of(sent) if sent else ThriftProtocol.BINARY
    if protocol is None:
        return False
    try:
        return changes(decode_call(protocol, service, exchange.body, partial=True))
    except (ApplicationError, ThriftError):
        return False

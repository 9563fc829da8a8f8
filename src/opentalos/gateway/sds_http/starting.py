"""SDS calls while the server starts: not done, in the form that makes each client retry.

Clients of the JSON header check only the HTTP status and retry 500 after a second; all others retry
the code SERVICE_UNAVAILABLE. Callers cannot be authenticated yet, so the reply gives no details.
Source: docs/protocol/sds.md#http, docs/protocol/clients.md#sds-clients.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from opentalos.gateway.http.exchange import Exchange, Handler
from opentalos.gateway.sds_http.gateway import BODY_BYTES_MAX, reply_error
from opentalos.gateway.thrift_http.replies import read_call
from opentalos.model.errors import StoreUnavailable
from opentalos.wire._generated.sds import SERVICES
from opentalos.wire.sds.signing import HEADER_START
from opentalos.wire.thrift.message import ThriftProtocol
from opentalos.wire.thrift.spec import ServiceSpec

STARTING: Final = "the server is starting: not done, send it again"


def starting_routes() -> Mapping[bytes, Handler]:
    """Handlers by path until there is a gateway."""
    return {service.path.encode(): partial(_reply, service) for service in SERVICES.values()}


def _reply(service: ServiceSpec, exchange: Exchange) -> None:
    by_status = exchange.headers.get(b"authorization", b"").startswith(HEADER_START)
    if by_status or exchange.body_bytes > BODY_BYTES_MAX:
        exchange.reply_text(500, STARTING, in_status=True)
        return
    read = read_call(exchange, service, ThriftProtocol.BINARY, partial=True, in_status=True)
    if read is not None:
        reply_error(exchange, read.form, StoreUnavailable(STARTING))

"""Translation of every RPC of the three services: generated structs in, broker values out."""

from typing import Final

from opentalos.gateway.sds_http.handlers import admin, batches, service, tables, unsupported
from opentalos.gateway.sds_http.handlers.context import Handler, Handlers, Services
from opentalos.wire._generated.sds import SERVICES

__all__ = ["HANDLERS", "Handler", "Handlers", "Services"]

_ALL: Final[dict[str, Handler]] = {
    **service.HANDLERS,
    **admin.HANDLERS,
    **tables.HANDLERS,
    **batches.HANDLERS,
    **unsupported.HANDLERS,
}
HANDLERS: Final[Handlers] = {
    name: {rpc: _ALL[rpc] for rpc in spec.methods} for name, spec in SERVICES.items()
}

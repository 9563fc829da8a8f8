"""Handlers by request: the table of what is served."""

from opentalos.gateway.kafka.gateway import Served, Table
from opentalos.gateway.kafka.handlers import api_versions, sasl
from opentalos.wire.kafka.apis import ApiKey

TABLE: Table = {
    ApiKey.API_VERSIONS: Served(api_versions.handle, (0, 4), open=True),
    ApiKey.SASL_HANDSHAKE: Served(sasl.handshake, (0, 1), open=True),
    ApiKey.SASL_AUTHENTICATE: Served(sasl.authenticate, (0, 2), open=True),
}

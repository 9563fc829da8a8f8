"""Handlers by request: the table of what is served."""

from opentalos.gateway.kafka.gateway import Served, Table
from opentalos.gateway.kafka.handlers import api_versions, cluster, metadata, sasl
from opentalos.wire.kafka.apis import ApiKey

TABLE: Table = {
    ApiKey.API_VERSIONS: Served(api_versions.handle, (0, 4), open=True),
    ApiKey.METADATA: Served(metadata.handle, (0, 13)),
    ApiKey.DESCRIBE_CLUSTER: Served(cluster.describe, (0, 2)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Served(metadata.describe_partitions, (0, 0)),
    ApiKey.FIND_COORDINATOR: Served(cluster.find_coordinator, (0, 6)),
    ApiKey.SASL_HANDSHAKE: Served(sasl.handshake, (1, 1), open=True),
    ApiKey.SASL_AUTHENTICATE: Served(sasl.authenticate, (0, 2), open=True),
}

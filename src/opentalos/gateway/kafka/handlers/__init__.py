"""Handlers by request: the table of what is served."""

from typing import Final

from opentalos.gateway.kafka.gateway import Served, Table
from opentalos.gateway.kafka.handlers import (
    api_versions,
    cluster,
    delete_records,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
    sasl,
)
from opentalos.gateway.kafka.handlers.admin import (
    acl_creation,
    acls,
    configs,
    partitions,
    topics,
)
from opentalos.gateway.kafka.handlers.group import consumer_groups, group_tools, groups, offsets
from opentalos.wire.kafka.apis import ApiKey

# Topics and partitions of one Produce request. One of 1 MiB, the most that Kafka's clients send by
# default, has room for 14,000 batches.
_PRODUCE_ITEMS: Final = 20_000
_FETCH_ITEMS: Final = 20_000  # of one Fetch request
_CHANGES: Final = 20_000  # of one that changes or describes settings; see ``admin.outcome``

TABLE: Table = {
    ApiKey.PRODUCE: Served(
        produce.handle, (3, 13), direct=True, overlaps=True, items_max=_PRODUCE_ITEMS
    ),
    ApiKey.FETCH: Served(fetch.handle, (4, 18), items_max=_FETCH_ITEMS),
    ApiKey.LIST_OFFSETS: Served(list_offsets.handle, (1, 11)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Served(list_offsets.leader_epochs, (2, 4)),
    ApiKey.DELETE_RECORDS: Served(delete_records.handle, (0, 2), items_max=_CHANGES),
    ApiKey.INIT_PRODUCER_ID: Served(init_producer_id.handle, (0, 5)),
    ApiKey.API_VERSIONS: Served(api_versions.handle, (0, 4), open=True),
    ApiKey.METADATA: Served(metadata.handle, (0, 13)),
    ApiKey.DESCRIBE_CLUSTER: Served(cluster.describe, (0, 2)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Served(metadata.describe_partitions, (0, 0)),
    ApiKey.FIND_COORDINATOR: Served(cluster.find_coordinator, (0, 6)),
    ApiKey.JOIN_GROUP: Served(groups.join, (0, 9)),
    ApiKey.SYNC_GROUP: Served(groups.sync, (0, 5)),
    ApiKey.HEARTBEAT: Served(groups.heartbeat, (0, 4), direct=True),
    ApiKey.LEAVE_GROUP: Served(groups.leave, (0, 5)),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Served(consumer_groups.heartbeat, (0, 1)),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Served(consumer_groups.describe, (0, 1), administrative=True),
    ApiKey.OFFSET_COMMIT: Served(offsets.commit, (2, 10)),
    ApiKey.OFFSET_FETCH: Served(offsets.fetch, (1, 10)),
    ApiKey.OFFSET_DELETE: Served(offsets.delete, (0, 0), administrative=True),
    ApiKey.DESCRIBE_GROUPS: Served(group_tools.describe, (0, 6), administrative=True),
    ApiKey.LIST_GROUPS: Served(group_tools.list_all, (0, 5), administrative=True),
    ApiKey.DELETE_GROUPS: Served(group_tools.delete, (0, 2), administrative=True),
    ApiKey.CREATE_TOPICS: Served(topics.create, (2, 7), items_max=_CHANGES),
    ApiKey.DELETE_TOPICS: Served(topics.delete, (1, 6), items_max=_CHANGES),
    ApiKey.CREATE_PARTITIONS: Served(partitions.create, (0, 3), items_max=_CHANGES),
    ApiKey.DESCRIBE_CONFIGS: Served(
        configs.describe, (1, 4), items_max=_CHANGES, administrative=True
    ),
    ApiKey.ALTER_CONFIGS: Served(configs.replace, (0, 2), items_max=_CHANGES),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Served(configs.alter, (0, 1), items_max=_CHANGES),
    ApiKey.DESCRIBE_ACLS: Served(acls.describe, (1, 3), administrative=True),
    ApiKey.CREATE_ACLS: Served(acl_creation.create, (1, 3), items_max=_CHANGES),
    ApiKey.DELETE_ACLS: Served(acls.delete, (1, 3), items_max=_CHANGES),
    # librdkafka 2.0 uses the handshake only if version 0 is there, and then sends version 1.
    ApiKey.SASL_HANDSHAKE: Served(sasl.handshake, (0, 1), open=True),
    ApiKey.SASL_AUTHENTICATE: Served(sasl.authenticate, (0, 2), open=True),
}

"""Broker: the composition of all use cases over the three stores and the clock."""

from opentalos.broker.consumers import ConsumerService
from opentalos.broker.context import BrokerConfig
from opentalos.broker.metrics import MetricService
from opentalos.broker.partition_quotas import PartitionQuotaService
from opentalos.broker.permissions import PermissionService
from opentalos.broker.principals import PrincipalService
from opentalos.broker.quotas import QuotaService
from opentalos.broker.topic_consumers import TopicsConsumerService
from opentalos.broker.topic_groups import TopicGroupService
from opentalos.broker.topics import TopicService
from opentalos.ports.clock import Clock
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore
from opentalos.ports.row_store import RowStore

__all__ = ["Broker", "BrokerConfig", "open_broker"]


class Broker:
    """All use cases of one server; ``start`` before use, ``close`` after."""

    config: BrokerConfig
    topics: TopicService
    permissions: PermissionService
    topic_groups: TopicGroupService
    consumers: ConsumerService
    topic_consumers: TopicsConsumerService
    quotas: QuotaService
    partition_quotas: PartitionQuotaService
    metrics: MetricService
    principals: PrincipalService

    async def start(self) -> None:
        """Load the catalog, open the log, start the background loops."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop the loops, seal the log; the stores stay open for their owner to close."""
        raise NotImplementedError

    def set_advertise(self, address: str) -> None:
        """The address for schedule info once the port is known."""
        raise NotImplementedError


def open_broker(
    *, files: FileStore, meta: MetaStore, rows: RowStore, clock: Clock, config: BrokerConfig
) -> Broker:
    """Compose a broker; no I/O happens before ``start``."""
    raise NotImplementedError

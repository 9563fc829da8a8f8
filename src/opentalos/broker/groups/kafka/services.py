"""KafkaGroupServices: what the gateway of Kafka clients calls about groups."""

from collections.abc import Collection

from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.consumers import ConsumerService
from opentalos.broker.groups.kafka.consumer_membership import KafkaConsumerService
from opentalos.broker.groups.kafka.expiry import KafkaGroupExpiry
from opentalos.broker.groups.kafka.groups import KafkaGroups
from opentalos.broker.groups.kafka.listing import KafkaGroupListing
from opentalos.broker.groups.kafka.membership import KafkaMembershipService
from opentalos.broker.groups.kafka.offsets import KafkaOffsetService
from opentalos.broker.groups.kafka.scope import GroupScope
from opentalos.group.coordinator import Coordinator
from opentalos.model.identity import Principal


class KafkaGroupServices:
    """Each attribute is one service; ``groups`` and ``expiry`` end with the server."""

    def __init__(
        self, context: BrokerContext, coordinator: Coordinator, consumers: ConsumerService
    ) -> None:
        self._context, self._rows = context, coordinator.rows
        self.groups = KafkaGroups(context, coordinator)
        self.expiry = KafkaGroupExpiry(context, coordinator, self.groups)
        self.members = KafkaMembershipService(context, self.groups)
        self.consumers = KafkaConsumerService(context, self.groups)
        self.offsets = KafkaOffsetService(context, self.groups, consumers)
        self.listing = KafkaGroupListing(context, self.groups, coordinator, consumers)

    def scope(self, caller: Principal, groups: Collection[str]) -> GroupScope:
        """What a call that names these groups may see; made once for the whole call."""
        return GroupScope(self._context, self._rows, caller, groups)

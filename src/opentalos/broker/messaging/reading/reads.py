"""MessageReads: the reads beside ``MessageService.get``, for gateways that need others."""

from opentalos.broker.context import BrokerContext
from opentalos.broker.messaging.messages import MessageService
from opentalos.broker.messaging.reading.fetches import FetchService
from opentalos.broker.messaging.reading.offset_queries import OffsetQueries
from opentalos.broker.messaging.reading.talos_blocks import TalosBlocks


class MessageReads:
    """Several partitions at once, offsets by time and epoch, and blocks for clients of Talos."""

    def __init__(self, context: BrokerContext, messages: MessageService) -> None:
        self.fetches = FetchService(context, messages)
        self.offset_queries = OffsetQueries(context, messages)
        self.talos_blocks = TalosBlocks(context, messages)

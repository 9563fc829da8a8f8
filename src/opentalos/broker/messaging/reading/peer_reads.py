"""RemoteMessages: blocks of partitions that other servers of the cluster serve."""

from collections.abc import Sequence

from opentalos.broker.context import BrokerContext
from opentalos.broker.messaging.messages import GetQuery
from opentalos.broker.peer_rpc.calls import MESSAGES
from opentalos.broker.peer_rpc.client import call_peer
from opentalos.broker.peer_rpc.messages import BlockMessage, MessagesReply, MessagesRequest
from opentalos.catalog.access.authorize import topic_not_exist
from opentalos.model.message import StoredBlock

HOLD_S = 0.5  # the other server waits so long for messages that are not there yet
UNKNOWN = -1  # how many messages follow


class RemoteMessages:
    """Reads through the server that has the partition. The asking server has authorised."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    async def read(self, address: str, query: GetQuery) -> tuple[Sequence[StoredBlock], int | None]:
        """Blocks, and how many messages follow the last of them; None: it is not known.

        Raises: what the other server raises; PartitionNotServing: it does not answer.
        """
        request = MessagesRequest(*query)
        reply = await call_peer(self._context.peers, address, MESSAGES, request)
        left = None if reply.unhandled < 0 else reply.unhandled
        return [shown.block() for shown in reply.blocks], left

    async def answer(self, request: MessagesRequest) -> MessagesReply:
        """Another server reads a partition that this one serves."""
        topic = self._context.topics.by_resource(request.resource)
        if topic is None:
            raise topic_not_exist(request.resource)
        limits = self._context.config.message
        read = await self._context.partition_log(topic, request.partition).read(
            request.offset,
            messages_max=min(request.messages_max, limits.get_messages_max),
            bytes_max=min(request.bytes_max, limits.get_bytes_max),
            hold_s=HOLD_S,
        )
        end = read.blocks[-1].next_offset if read.blocks else read.range.next
        blocks = [BlockMessage.of(block) for block in read.blocks]
        left = max(0, read.range.next - end) if read.damage is None else UNKNOWN
        return MessagesReply(blocks, left)

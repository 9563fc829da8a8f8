"""TalosBlocks: blocks of Kafka's producers as clients of the Talos protocol can read them.

Their readers know messages V1 to V3 and at most uncompressed batches. So a batch is given to them
as a block of V3 messages at the same offsets; what they cannot express is in docs/how-to/kafka.md.
"""

from collections.abc import Sequence

from opentalos.broker.context import BrokerContext
from opentalos.broker.messaging.block_reader import Part, Reader
from opentalos.broker.messaging.messages import GetQuery, GetResult, MessageService
from opentalos.model.identity import Permission, Principal
from opentalos.model.message import Compression, PayloadFormat, StoredBlock
from opentalos.wire.message.compression import DECODED_BYTES_MAX
from opentalos.wire.message.talos_format import encode_messages

PIECE_MESSAGES = 500  # encoded at once; about a millisecond
_VERSION = 3


class TalosBlocks:
    """Encodes what a get returned, in pieces between which other requests are served."""

    def __init__(self, context: BrokerContext, messages: MessageService) -> None:
        self._context, self._messages = context, messages

    async def readable(self, caller: Principal, query: GetQuery, result: GetResult) -> GetResult:
        """The same messages, or fewer if decompressed they exceed what the query asks for.

        Raises: MessageUnreadable; TopicNotExist.
        """
        if not holds_batches(result.blocks):
            return result
        topic = self._context.topic(caller, Permission.GET_MESSAGE, query.resource)
        reader = self._messages.reader(caller, topic, query.partition)
        blocks: list[StoredBlock] = []
        left_bytes = min(query.bytes_max, self._context.config.message.get_bytes_max)
        for block in result.blocks:
            if blocks and left_bytes <= 0:
                break
            if block.format == PayloadFormat.KAFKA:
                block = await self._encoded(reader, block)
            blocks.append(block)
            left_bytes -= len(block.payload)
        messages = sum(block.messages for block in blocks)
        unhandled = result.unhandled
        if unhandled is not None:
            unhandled += result.messages - messages
        return GetResult(blocks, messages, unhandled, result.hold_s)

    async def _encoded(self, reader: Reader, block: StoredBlock) -> StoredBlock:
        pieces = []
        offset = block.base_offset
        while offset < block.next_offset:
            part = Part(offset, PIECE_MESSAGES, DECODED_BYTES_MAX)
            found = await self._context.blocks.read(reader, block, part)
            if offset > block.base_offset:
                await self._context.work.pause()
            pieces.append(encode_messages(found, _VERSION))
            offset += len(found)
        return block._replace(
            payload=b"".join(pieces), compression=Compression.NONE, format=PayloadFormat.TALOS
        )


def holds_batches(blocks: Sequence[StoredBlock]) -> bool:
    """Whether a block is one of Kafka's producers; hot path."""
    return any(block.format == PayloadFormat.KAFKA for block in blocks)

"""MessageService: putMessage and getMessage in the shapes the hot path leaves, and transactions."""

import asyncio
from typing import Any, Final

from opentalos.broker.broker import Broker
from opentalos.broker.messaging.append_future import waiter_of
from opentalos.broker.messaging.messages import GetQuery, PutTarget
from opentalos.gateway.thrift_http.errors import NotTransactional
from opentalos.gateway.thrift_http.handlers import values
from opentalos.gateway.thrift_http.handlers.context import CallContext, Handler
from opentalos.model.errors import BadRequest, NotSupported
from opentalos.model.identity import Principal
from opentalos.model.message import (
    PRODUCER_ID_MAX,
    UNKNOWN_OFFSET,
    Compression,
    MessageBlock,
    ProducerStamp,
    StoredBefore,
    StoredBlock,
)
from opentalos.wire._generated import message
from opentalos.wire.thrift.block_extras import Extras, decode_extras, encode_extras
from opentalos.wire.thrift.hot import UNKNOWN

_COMPRESSIONS: Final = frozenset(Compression)


async def put_message(
    broker: Broker, caller: Principal, request: message.PutMessageRequest, context: CallContext
) -> message.PutMessageResponse:
    """Append blocks; the reply waits until all are durable."""
    made = await broker.work.each(
        caller.id, request.messageBlocks, lambda block: _block_of(block, caller)
    )
    blocks = _stamped(made, request)
    total = sum(block.messages for block in blocks)
    if total != request.messageNumber:
        raise BadRequest(f"messageNumber is {request.messageNumber}, but the blocks have {total}")
    resource, partition = values.target_of(request.topicAndPartition)
    target = PutTarget(resource, partition, request.timeoutTimestamp or 0)
    durable: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    broker.messages.put(caller, target, blocks, waiter_of(durable))
    base_offset = await durable
    return message.PutMessageResponse(
        sequenceId=request.sequenceId,
        isTransfer=context.transferred or None,
        baseOffset=None if base_offset == UNKNOWN_OFFSET else int(base_offset),
        storedBefore=isinstance(base_offset, StoredBefore) or None,
    )


def _stamped(blocks: list[MessageBlock], request: message.PutMessageRequest) -> list[MessageBlock]:
    """The blocks with what an idempotent producer says of itself; unchanged without."""
    sent = request.producerId, request.producerEpoch, request.firstSequence
    if sent == (None, None, None):
        return blocks
    if None in sent:
        raise BadRequest("an idempotent put needs producerId, producerEpoch and firstSequence")
    producer_id, epoch, sequence = (number or 0 for number in sent)
    if not 0 < producer_id <= PRODUCER_ID_MAX or epoch < 0 or sequence < 0:
        raise BadRequest(f"producerId, producerEpoch or firstSequence out of range: {sent}")
    stamped = list[MessageBlock]()
    for block in blocks:
        stamp = ProducerStamp(producer_id, epoch, sequence, bool(request.repeated))
        stamped.append(block._replace(producer=stamp))
        sequence += block.messages
    return stamped


def _block_of(block: message.MessageBlock, caller: Principal) -> MessageBlock:
    """A block to store; start offset and append time are the server's to set."""
    if block.messageNumber <= 0:
        raise BadRequest(f"messageNumber of a block is {block.messageNumber}, must be 1 or more")
    if block.compressionType not in _COMPRESSIONS:
        raise BadRequest(f"unknown compression type {block.compressionType}")
    if block.transactionId:
        raise NotTransactional("blocks with a transaction id are not supported yet")
    if block.createTimestamp is not None and block.createTimestamp < 0:
        raise BadRequest(f"createTimestamp is negative: {block.createTimestamp}")
    if block.messageBlockSize is not None and block.messageBlockSize < 0:
        raise BadRequest(f"messageBlockSize is negative: {block.messageBlockSize}")
    extras = Extras(block.createTimestampList, block.tag, block.tagCode)
    return MessageBlock(
        payload=block.messageBlock,
        messages=block.messageNumber,
        compression=int(block.compressionType),
        create_ms=block.createTimestamp or 0,
        principal=caller.number,
        extras=encode_extras(extras),
    )


async def get_message(
    broker: Broker, caller: Principal, request: message.GetMessageRequest, context: CallContext
) -> message.GetMessageResponse:
    """Read blocks. ``unHandledMessageNumber`` is always set: Python needs it; -1: not known."""
    if request.messageTags:
        raise NotSupported("messageTags: tag filters are not supported yet")
    resource, partition = values.target_of(request.topicAndPartition)
    query = GetQuery(
        resource=resource,
        partition=partition,
        offset=request.messageOffset,
        messages_max=request.maxGetMessageNumber,
        bytes_max=request.maxGetMessageBytes,
        deadline_ms=request.timeoutTimestamp or 0,
    )
    found = await broker.messages.get(caller, query)
    result = await broker.reads.talos_blocks.readable(caller, query, found)
    return message.GetMessageResponse(
        messageBlocks=await broker.work.each(caller.id, result.blocks, _message_block),
        messageNumber=result.messages,
        unHandledMessageNumber=UNKNOWN if result.unhandled is None else result.unhandled,
        sequenceId=request.sequenceId,
        isTransfer=context.transferred or None,
    )


def _message_block(block: StoredBlock) -> message.MessageBlock:
    extras = decode_extras(block.extras)
    return message.MessageBlock(
        startMessageOffset=block.base_offset,
        messageNumber=block.messages,
        compressionType=block.compression,
        messageBlock=bytes(block.payload),
        messageBlockSize=len(block.payload),
        appendTimestamp=block.append_ms,
        createTimestamp=block.create_ms or None,
        createTimestampList=extras.create_ms_list,
        tag=extras.tag,
        tagCode=extras.tag_code,
    )


def _unsupported(name: str) -> Handler:
    async def refuse(_: Broker, __: Principal, ___: Any, ____: CallContext) -> None:
        raise NotTransactional(f"{name}: transactions are not supported yet")

    return refuse


_TRANSACTIONS: Final = ("prepare", "commit", "rollback", "getUnkownStateTransaction")

HANDLERS: Final[dict[str, Handler]] = {
    "putMessage": put_message,
    "getMessage": get_message,
    **{name: _unsupported(name) for name in _TRANSACTIONS},
}

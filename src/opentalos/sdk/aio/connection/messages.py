"""Converts between the SDK's values and the Thrift structs of the data path."""

from collections.abc import Mapping, Sequence

from opentalos.model.errors import DAMAGE, TalosError
from opentalos.model.message import (
    MessageBlock,
    OffsetRange,
    PayloadFormat,
    ProducerStamp,
    StoredBlock,
)
from opentalos.model.names import ResourceName
from opentalos.model.settings.partitioning import partitioning_of
from opentalos.sdk.core.values import DamagedRange, FetchReply, PutReply, TopicRef
from opentalos.sdk.errors import error_of_code
from opentalos.wire._generated import message, topic
from opentalos.wire.message.kafka_format import is_kafka_block
from opentalos.wire.thrift.block_extras import Extras, decode_extras, encode_extras


def resource_name(resource: str) -> topic.TopicTalosResourceName:
    """Struct of a resource name."""
    return topic.TopicTalosResourceName(topicTalosResourceName=resource)


def target(ref: TopicRef, partition: int) -> topic.TopicAndPartition:
    """Struct of a partition."""
    return topic.TopicAndPartition(
        topicName=ref.name,
        topicTalosResourceName=resource_name(ref.resource),
        partitionId=partition,
    )


def attribute_request(name: str) -> topic.GetTopicAttributeRequest:
    """Request a topic by name."""
    return topic.GetTopicAttributeRequest(topicName=name)


def describe_info_request(name: str) -> topic.GetDescribeInfoRequest:
    """Request a topic as consumers see it."""
    return topic.GetDescribeInfoRequest(topicName=name)


def topic_of(found: topic.GetTopicAttributeResponse) -> TopicRef:
    """The topic as producers see it."""
    resource = found.topicTalosResourceName.topicTalosResourceName
    partitions = found.topicAttribute.partitionNumber or 0
    partitioning = partitioning_of(found.topicAttribute.attributes or {})
    name = ResourceName.parse(resource).topic
    return TopicRef(name, resource, partitions, partitioning=partitioning)


def has_shrunk(found: topic.GetTopicAttributeResponse) -> bool:
    """Whether consumers may see more partitions than producers: a shrink is draining."""
    attribute = found.topicAttribute
    return (attribute.oldPartitionNumber or 0) > (attribute.partitionNumber or 0)


def put_request(
    ref: TopicRef,
    partition: int,
    block: MessageBlock,
    sequence_id: str,
    stamp: ProducerStamp | None,
) -> message.PutMessageRequest:
    """The request to put one block."""
    extras = decode_extras(block.extras)
    sent = message.MessageBlock(
        startMessageOffset=0,
        messageNumber=block.messages,
        compressionType=block.compression,
        messageBlock=block.payload,
        messageBlockSize=len(block.payload),
        createTimestamp=block.create_ms or None,
        createTimestampList=extras.create_ms_list,
        tag=extras.tag,
        tagCode=extras.tag_code,
    )
    request = message.PutMessageRequest(
        topicAndPartition=target(ref, partition),
        messageBlocks=[sent],
        messageNumber=block.messages,
        sequenceId=sequence_id,
    )
    if stamp is not None:
        request.producerId, request.producerEpoch = stamp.producer_id, stamp.epoch
        request.firstSequence, request.repeated = stamp.sequence, stamp.repeated or None
    return request


def put_reply(found: message.PutMessageResponse) -> PutReply:
    """The result of a put."""
    return PutReply(found.baseOffset, bool(found.storedBefore))


def get_request(
    ref: TopicRef, partition: int, offset: int, sequence_id: str
) -> message.GetMessageRequest:
    """The request to get messages, with default limits."""
    return message.GetMessageRequest(
        topicAndPartition=target(ref, partition), messageOffset=offset, sequenceId=sequence_id
    )


def fetch_reply(found: message.GetMessageResponse) -> FetchReply:
    """The blocks in the reply to a get."""
    blocks = [_stored(block) for block in found.messageBlocks]
    unhandled = found.unHandledMessageNumber or 0
    return FetchReply(blocks, None if unhandled < 0 else unhandled)


def _stored(block: message.MessageBlock) -> StoredBlock:
    extras = b""
    if block.createTimestampList or block.tag or block.tagCode:
        extras = encode_extras(Extras(block.createTimestampList, block.tag, block.tagCode))
    payload = block.messageBlock
    kafka = not block.compressionType and is_kafka_block(payload)
    return StoredBlock(
        block.startMessageOffset,
        block.messageNumber,
        block.appendTimestamp or 0,
        block.createTimestamp or 0,
        int(block.compressionType),
        PayloadFormat.KAFKA if kafka else PayloadFormat.TALOS,
        payload,
        extras,
    )


def offsets_request(ref: TopicRef, partitions: Sequence[int]) -> message.GetPartitionsOffsetRequest:
    """Request the retained offsets of partitions."""
    wanted = [target(ref, partition) for partition in partitions]
    return message.GetPartitionsOffsetRequest(topicAndPartitionList=wanted)


def check_offsets(found: message.GetPartitionsOffsetResponse) -> None:
    """Raise the error of the first failing partition."""
    for info in found.offsetInfoList:
        if (error := _error_of(info)) is not None:
            raise error


def check_undamaged(found: message.GetPartitionsOffsetResponse) -> None:
    """Raise the error of the first partition that fails without being damaged."""
    for info in found.offsetInfoList:
        if (error := _error_of(info)) is not None and not isinstance(error, DAMAGE):
            raise error


def offsets_of(
    found: message.GetPartitionsOffsetResponse,
) -> dict[int, OffsetRange | DamagedRange]:
    """Retained offsets by partition."""
    return {info.partitionId: _range_of(info) for info in found.offsetInfoList}


def _error_of(info: message.OffsetInfo) -> TalosError | None:
    if info.errorCode is None:
        return None
    return error_of_code("getPartitionsOffset", info.errorCode, info.errorMsg or "")


def _range_of(info: message.OffsetInfo) -> OffsetRange | DamagedRange:
    if (damage := _error_of(info)) is not None:
        return DamagedRange(damage, info.startOffset)
    return OffsetRange(info.startOffset or 0, 0 if info.endOffset is None else info.endOffset + 1)


def checkpoint_request(ref: TopicRef, times_ms: Mapping[int, int]) -> message.GetCheckpointRequest:
    """Request offsets by time."""
    return message.GetCheckpointRequest(
        topicTalosResourceName=resource_name(ref.resource), partitionTimeIndexMap=dict(times_ms)
    )


def schedule_request(resource: str) -> message.GetScheduleInfoRequest:
    """Request the server of each partition."""
    return message.GetScheduleInfoRequest(topicTalosResourceName=resource_name(resource))


def addresses_of(found: message.GetScheduleInfoResponse) -> dict[int, str]:
    """``host:port`` by partition."""
    return {place.partitionId: address for place, address in found.scheduleInfo.items()}

"""Structs of the data path's calls: from the SDK's values, and back."""

from collections.abc import Mapping, Sequence

from opentalos.model.message import (
    MessageBlock,
    OffsetRange,
    PayloadFormat,
    ProducerStamp,
    StoredBlock,
)
from opentalos.model.names import ResourceName
from opentalos.sdk.core.values import FetchReply, PutReply, TopicRef
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
    """Ask for a topic by name."""
    return topic.GetTopicAttributeRequest(topicName=name)


def describe_info_request(name: str) -> topic.GetDescribeInfoRequest:
    """Ask for what consumers see of a topic."""
    return topic.GetDescribeInfoRequest(topicName=name)


def topic_of(found: topic.GetTopicAttributeResponse) -> TopicRef:
    """The topic of a reply, as producers see it."""
    resource = found.topicTalosResourceName.topicTalosResourceName
    partitions = found.topicAttribute.partitionNumber or 0
    return TopicRef(ResourceName.parse(resource).topic, resource, partitions)


def has_shrunk(found: topic.GetTopicAttributeResponse) -> bool:
    """Whether consumers may still see more partitions than producers do."""
    attribute = found.topicAttribute
    return (attribute.oldPartitionNumber or 0) > (attribute.partitionNumber or 0)


def put_request(
    ref: TopicRef,
    partition: int,
    block: MessageBlock,
    sequence_id: str,
    stamp: ProducerStamp | None,
) -> message.PutMessageRequest:
    """A put of one block."""
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
    """What a put's reply tells."""
    return PutReply(found.baseOffset)


def get_request(
    ref: TopicRef, partition: int, offset: int, sequence_id: str
) -> message.GetMessageRequest:
    """A get with the default bounds."""
    return message.GetMessageRequest(
        topicAndPartition=target(ref, partition), messageOffset=offset, sequenceId=sequence_id
    )


def fetch_reply(found: message.GetMessageResponse) -> FetchReply:
    """Stored blocks of a get's reply."""
    blocks = [_stored(block) for block in found.messageBlocks]
    return FetchReply(blocks, found.unHandledMessageNumber or 0)


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
    """Ask for the retained offsets of partitions."""
    wanted = [target(ref, partition) for partition in partitions]
    return message.GetPartitionsOffsetRequest(topicAndPartitionList=wanted)


def check_offsets(found: message.GetPartitionsOffsetResponse) -> None:
    """Raise the error of the first partition that has one."""
    for info in found.offsetInfoList:
        if info.errorCode is not None:
            raise error_of_code("getPartitionsOffset", info.errorCode, info.errorMsg or "")


def offsets_of(found: message.GetPartitionsOffsetResponse) -> dict[int, OffsetRange]:
    """Retained offsets by partition."""
    return {
        info.partitionId: OffsetRange(info.startOffset or 0, _next_of(info))
        for info in found.offsetInfoList
    }


def _next_of(info: message.OffsetInfo) -> int:
    return 0 if info.endOffset is None else info.endOffset + 1


def checkpoint_request(ref: TopicRef, times_ms: Mapping[int, int]) -> message.GetCheckpointRequest:
    """Ask for offsets by time."""
    return message.GetCheckpointRequest(
        topicTalosResourceName=resource_name(ref.resource), partitionTimeIndexMap=dict(times_ms)
    )


def schedule_request(resource: str) -> message.GetScheduleInfoRequest:
    """Ask which server serves each partition."""
    return message.GetScheduleInfoRequest(topicTalosResourceName=resource_name(resource))


def addresses_of(found: message.GetScheduleInfoResponse) -> dict[int, str]:
    """``host:port`` by partition."""
    return {place.partitionId: address for place, address in found.scheduleInfo.items()}

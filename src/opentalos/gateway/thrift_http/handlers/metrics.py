"""MetricService: how far consumer groups are; data preview, which MessageService has too."""

from typing import Final

from opentalos.broker.broker import Broker
from opentalos.broker.messaging.preview import PreviewedMessage
from opentalos.broker.values import PartitionConsumeUnit
from opentalos.gateway.thrift_http.handlers import values
from opentalos.gateway.thrift_http.handlers.context import CallContext, Handler
from opentalos.gateway.thrift_http.handlers.topics import list_topics_info
from opentalos.model.identity import Principal
from opentalos.wire._generated import message, metric

PREVIEW_CHARS_MAX: Final = 4096  # of one cell
UNKNOWN_LAG: Final = -1  # the partition is damaged; the field is required
_TITLES: Final = (
    "offset",
    "appendTimestamp",
    "createTimestamp",
    "partitionKey",
    "sequenceNumber",
    "messageType",
    "message",
)


def _unit(unit: PartitionConsumeUnit) -> metric.PartitionConsumeUnit:
    return metric.PartitionConsumeUnit(
        partitionId=unit.partition,
        ipAddr=unit.address,
        consumerCommitOffset=unit.checkpoint,
        consumerOffsetLag=UNKNOWN_LAG if unit.lag is None else unit.lag,
    )


async def query_consumer_group(
    broker: Broker, caller: Principal, request: metric.QueryConsumerGroupRequest, _: CallContext
) -> metric.QueryConsumerGroupResponse:
    """Names of a topic's consumer groups."""
    resource = values.resource_of(request.topicTalosResourceName)
    found = await broker.metrics.consumer_groups(caller, resource)
    return metric.QueryConsumerGroupResponse(consumerGroupList=set(found))


async def get_topic_consume_unit(
    broker: Broker, caller: Principal, request: metric.GetTopicConsumeUnitRequest, _: CallContext
) -> metric.GetTopicConsumeUnitResponse:
    """Progress of one group, by partition."""
    unit = request.consumerGroupAndTopic
    resource = values.resource_of(unit.topicTalosResourceName)
    found = await broker.metrics.consume_unit(caller, unit.consumerGroupName, resource)
    units = await broker.work.each(caller.id, found, _unit)
    return metric.GetTopicConsumeUnitResponse(partitionConsumeUnitList=units)


async def query_topic_consume_unit(
    broker: Broker, caller: Principal, request: metric.QueryTopicConsumeUnitRequest, _: CallContext
) -> metric.QueryTopicConsumeUnitResponse:
    """Progress of every group, by partition."""
    resource = values.resource_of(request.topicTalosResourceName)
    found = await broker.metrics.consume_units(caller, resource)
    by_group = {}
    for group, units in found.items():
        by_group[group] = await broker.work.each(caller.id, units, _unit)
        await broker.work.pause()
    return metric.QueryTopicConsumeUnitResponse(topicConsumeUnitMap=by_group)


async def get_data_preview(
    broker: Broker, caller: Principal, request: message.GetDataPreviewRequest, _: CallContext
) -> message.GetDataPreviewResponse:
    """The latest messages of a partition as rows of text."""
    resource, partition = values.target_of(request.topicAndPartition)
    found = await broker.messages.preview(caller, resource, partition)
    return message.GetDataPreviewResponse(
        schemaTitleList=list(_TITLES),
        messageLists=[_row(item) for item in found],
        messageNumber=len(found),
    )


def _row(item: PreviewedMessage) -> dict[str, str]:
    """One message; what it does not carry is left out."""
    sent = item.message
    cells = {
        "offset": str(item.offset),
        "appendTimestamp": str(item.append_ms),
        "createTimestamp": str(sent.create_ms) if sent.create_ms is not None else None,
        "partitionKey": sent.partition_key,
        "sequenceNumber": sent.sequence_number,
        "messageType": _type_name(sent.message_type),
        "message": _text(sent.data),
    }
    return {name: cell[:PREVIEW_CHARS_MAX] for name, cell in cells.items() if cell is not None}


def _type_name(number: int | None) -> str | None:
    if number is None:
        return None
    names = {item.value: item.name for item in message.MessageType}
    return names.get(number, str(number))


def _text(data: bytes) -> str:
    """Text where it is some, else hexadecimal digits."""
    data = data[: 4 * PREVIEW_CHARS_MAX]  # UTF-8 has at most 4 bytes a character
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if error.start > len(data) - 4 and error.reason == "unexpected end of data":
            return data[: error.start].decode()  # cut in the middle of a character
        return data.hex()


HANDLERS: Final[dict[str, Handler]] = {
    "listTopics": list_topics_info,
    "queryConsumerGroup": query_consumer_group,
    "getTopicConsumeUnit": get_topic_consume_unit,
    "queryTopicConsumeUnit": query_topic_consume_unit,
    "getDataPreview": get_data_preview,
}

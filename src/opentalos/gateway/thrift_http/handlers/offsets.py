"""MessageService: offsets, time lookup, schedule info."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from opentalos.broker.broker import Broker
from opentalos.broker.peer_rpc.remote_logs import Found
from opentalos.gateway.thrift_http.errors import form_of, text_of
from opentalos.gateway.thrift_http.handlers import values
from opentalos.gateway.thrift_http.handlers.context import CallContext, Handler
from opentalos.gateway.thrift_http.handlers.metrics import get_data_preview
from opentalos.model.errors import BadRequest, TalosError, UnexpectedOffset
from opentalos.model.identity import Principal
from opentalos.model.limits import PARTITIONS_MAX
from opentalos.wire._generated import common, message


def _info(partition: int, found: Found) -> message.OffsetInfo:
    """Offsets, or an error code: getPartitionsOffset declares no exception.

    A damaged partition has its start beside the error.
    """
    start: int | None = None
    error: TalosError | None
    if isinstance(found, TalosError):
        error = found
    else:
        start, error = found.offsets.start, found.damage
        if error is None:
            end = found.offsets.end
            return message.OffsetInfo(partitionId=partition, startOffset=start, endOffset=end)
    form = form_of(error)
    return message.OffsetInfo(
        partitionId=partition,
        startOffset=start,
        errorCode=common.ErrorCode(form.code),
        errorMsg=text_of(error, form),
    )


async def _infos(
    broker: Broker, caller: Principal, resource: str, partitions: list[int]
) -> list[message.OffsetInfo]:
    found: Sequence[Found]
    try:
        found = await broker.messages.facts_of(caller, resource, partitions)
    except TalosError as error:
        found = [error] * len(partitions)
    return await _infos_of(broker, caller, zip(partitions, found, strict=True))


async def _infos_of(
    broker: Broker, caller: Principal, found: Iterable[tuple[int, Found]]
) -> list[message.OffsetInfo]:
    return await broker.work.each(caller.id, list(found), lambda item: _info(*item))


def _check_count(count: int) -> None:
    if count > PARTITIONS_MAX:
        raise BadRequest(f"{count} partitions in one call; the limit is {PARTITIONS_MAX}")


async def get_topic_offset(
    broker: Broker, caller: Principal, request: message.GetTopicOffsetRequest, _: CallContext
) -> message.GetTopicOffsetResponse:
    """Offsets of every partition of a topic."""
    resource = values.resource_of(request.topicTalosResourceName)
    found = await broker.messages.facts_of(caller, resource)
    infos = await _infos_of(broker, caller, enumerate(found))
    return message.GetTopicOffsetResponse(offsetInfoList=infos)


async def get_partition_offset(
    broker: Broker, caller: Principal, request: message.GetPartitionOffsetRequest, _: CallContext
) -> message.GetPartitionOffsetResponse:
    """Offsets of one partition; errors too go into the reply, since Java 2.4 declares none."""
    resource, partition = values.target_of(request.topicAndPartition)
    (info,) = await _infos(broker, caller, resource, [partition])
    return message.GetPartitionOffsetResponse(offsetInfo=info)


async def get_partitions_offset(
    broker: Broker, caller: Principal, request: message.GetPartitionsOffsetRequest, _: CallContext
) -> message.GetPartitionsOffsetResponse:
    """Offsets of the listed partitions, an error per partition that has none."""
    wanted = request.topicAndPartitionList
    _check_count(len(wanted))
    places = await broker.work.each(caller.id, wanted, values.target_of)
    by_topic: dict[str, list[int]] = {}
    for resource, partition in places:
        by_topic.setdefault(resource, []).append(partition)
    found: dict[tuple[str, int], message.OffsetInfo] = {}
    for resource, partitions in by_topic.items():
        infos = await _infos(broker, caller, resource, partitions)
        keys = [(resource, partition) for partition in partitions]
        found.update(zip(keys, infos, strict=True))
        await broker.work.pause()
    return message.GetPartitionsOffsetResponse(offsetInfoList=[found[place] for place in places])


async def get_topic_checkpoint(
    broker: Broker, caller: Principal, request: message.GetCheckpointRequest, _: CallContext
) -> message.GetCheckpointResponse:
    """First offset at or after a time, by partition."""
    resource = values.resource_of(request.topicTalosResourceName)
    wanted = request.partitionTimeIndexMap
    _check_count(len(wanted))
    found = await broker.messages.offsets_at(caller, resource, wanted)
    return message.GetCheckpointResponse(partitionsCheckPoint=dict(found))


async def get_partition_checkpoint(
    broker: Broker,
    caller: Principal,
    request: message.GetPartitionCheckpointRequest,
    _: CallContext,
) -> message.GetPartitionCheckpointResponse:
    """First offset at or after a time."""
    resource, partition = values.target_of(request.topicAndPartition)
    time_ms = request.partitionTimeIndex
    offset = await broker.messages.offset_at(caller, resource, partition, time_ms)
    return message.GetPartitionCheckpointResponse(partitionCheckPoint=offset)


async def get_schedule_info(
    broker: Broker, caller: Principal, request: message.GetScheduleInfoRequest, _: CallContext
) -> message.GetScheduleInfoResponse:
    """The address that serves each partition."""
    resource = values.resource_of(request.topicTalosResourceName)
    _found, addresses = broker.messages.schedule_info(caller, resource)
    places = await broker.work.each(
        caller.id, range(len(addresses)), partial(values.topic_and_partition, resource)
    )
    return message.GetScheduleInfoResponse(scheduleInfo=dict(zip(places, addresses, strict=True)))


async def delete_message_index(
    broker: Broker, caller: Principal, request: message.DeleteMessageIndexRequest, _: CallContext
) -> None:
    """Checks the caller and the range; there is nothing to delete.

    The log's index is derived from its blocks and rebuilt when missing, so it never has entries
    that the blocks do not support.
    """
    resource, partition = values.target_of(request.topicAndPartition)
    broker.context.authorizer.authorize_admin(caller, "delete message index", resource)
    await broker.messages.offsets(caller, resource, partition)
    if not 0 <= request.startOffset <= request.endOffset:
        raise UnexpectedOffset(
            f"invalid offset range: {request.startOffset} to {request.endOffset}"
        )


HANDLERS: Final[dict[str, Handler]] = {
    "getTopicOffset": get_topic_offset,
    "getPartitionOffset": get_partition_offset,
    "getPartitionsOffset": get_partitions_offset,
    "getTopicCheckpoint": get_topic_checkpoint,
    "getPartitionCheckpoint": get_partition_checkpoint,
    "getScheduleInfo": get_schedule_info,
    "getDataPreview": get_data_preview,
    "deleteMessageIndex": delete_message_index,
}

"""ListOffsets and OffsetForLeaderEpoch: where partitions begin and end, by time and by epoch.

Source: Apache Kafka 4.3, ListOffsetsRequest.json (special timestamps); KIP-320 (epochs).
"""

from typing import Final, NamedTuple

from opentalos.broker.messaging.reading.offset_queries import TimedOffset
from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.errors import code_of
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.topics import named_topic
from opentalos.model.errors import NotSupported, TalosError
from opentalos.model.identity import Permission
from opentalos.wire.kafka._generated.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from opentalos.wire.kafka._generated.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4  # with tiered storage, of which there is none: as the earliest
LATEST_TIERED: Final = -5
EARLIEST_NOT_TIERED: Final = -6  # the first one that waits for its upload
NOTHING: Final = TimedOffset(-1, -1)
_COST: Final = 8  # of a partition, in items of a piece


class _Place(NamedTuple):
    resource: str
    partition: int


async def handle(services: Services, call: KafkaCall) -> ListOffsetsResponse:
    """The offset of each partition, or its error."""
    topics, known = [], dict[tuple[_Place, int], TimedOffset]()
    for topic in call.request.topics:
        answers = []
        await call.piece()
        for part in topic.partitions:
            await call.piece(_COST)
            answer = ListOffsetsPartitionResponse(
                partition_index=part.partition_index, offset=-1, timestamp=-1
            )
            answers.append(answer)
            try:
                place = _place(services, call, topic.name, part.partition_index)
                await _expect(services, call, place, part.current_leader_epoch)
                # A search reads messages, so a request that repeats itself costs one.
                found = known.get((place, part.timestamp))
                if found is None:
                    found = await _found(services, call, place, part.timestamp)
                    known[place, part.timestamp] = found
            except TalosError as error:
                answer.error_code = int(code_of(error))
            else:
                answer.offset, answer.timestamp = found
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _place(services: Services, call: KafkaCall, name: str, partition: int) -> _Place:
    topic = named_topic(services, call, Permission.GET_MESSAGE, name)
    return _Place(topic.resource, partition)


async def _expect(services: Services, call: KafkaCall, place: _Place, epoch: int) -> None:
    await services.broker.reads.offset_queries.expect(call.caller, *place, epoch)


async def _found(services: Services, call: KafkaCall, place: _Place, time_ms: int) -> TimedOffset:
    queries, caller = services.broker.reads.offset_queries, call.caller
    if time_ms in (EARLIEST, EARLIEST_LOCAL):
        return TimedOffset(await queries.start(caller, *place), -1)
    if time_ms == LATEST:
        return TimedOffset((await queries.retained(caller, *place)).next, -1)
    if time_ms == MAX_TIMESTAMP:
        return await queries.newest(caller, *place) or NOTHING
    if time_ms in (LATEST_TIERED, EARLIEST_NOT_TIERED):
        return NOTHING
    if time_ms < 0:
        raise NotSupported(f"the timestamp {time_ms} has no meaning here")
    return await queries.at_time(caller, *place, time_ms) or NOTHING


async def leader_epochs(services: Services, call: KafkaCall) -> OffsetForLeaderEpochResponse:
    """Where the log of a reader of the asked epoch ends, for each partition."""
    queries, topics = services.broker.reads.offset_queries, []
    for topic in call.request.topics:
        answers = []
        await call.piece()
        for part in topic.partitions:
            await call.piece(_COST)
            answer = EpochEndOffset(partition=part.partition, leader_epoch=-1, end_offset=-1)
            answers.append(answer)
            try:
                place = _place(services, call, topic.topic, part.partition)
                await _expect(services, call, place, part.current_leader_epoch)
                found = await queries.end_of_epoch(call.caller, *place, part.leader_epoch)
            except TalosError as error:
                answer.error_code = int(code_of(error))
            else:
                answer.leader_epoch, answer.end_offset = found
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return OffsetForLeaderEpochResponse(topics=topics)

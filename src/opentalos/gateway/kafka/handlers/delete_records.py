"""DeleteRecords: the beginning of partitions. Source: Apache Kafka 4.3, KIP-107."""

from typing import Final

from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.errors import code_of
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.topics import named_topic
from opentalos.model.errors import TalosError
from opentalos.model.identity import Permission
from opentalos.wire.kafka._generated.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_COST: Final = 16  # of a partition, in items of a piece


async def handle(services: Services, call: KafkaCall) -> DeleteRecordsResponse:
    """The first offset that is left in each partition, or its error."""
    topics, deletion = [], services.broker.record_deletion
    for topic in call.request.topics:
        answers = []
        await call.piece()
        for part in topic.partitions:
            await call.piece(_COST)
            answer = DeleteRecordsPartitionResult(
                partition_index=part.partition_index, low_watermark=-1
            )
            answers.append(answer)
            try:
                found = named_topic(services, call, Permission.CHANGE_TOPIC, topic.name)
                answer.low_watermark = await deletion.delete(
                    call.caller, found.resource, part.partition_index, part.offset
                )
            except TalosError as error:
                answer.error_code = int(code_of(error))
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=answers))
    return DeleteRecordsResponse(topics=topics)

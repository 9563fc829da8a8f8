"""CreatePartitions: more partitions of a topic; fewer only REST can ask for."""

from typing import Final

from opentalos.broker.values import AttributeChange
from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.handlers.admin.outcome import (
    Refused,
    Turns,
    found,
    outcome,
    repeated,
    throttle_codes,
)
from opentalos.model.identity import Permission
from opentalos.wire.kafka._generated.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from opentalos.wire.kafka._generated.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from opentalos.wire.kafka.errors import ErrorCode

_THROTTLES: Final = 3  # first version whose clients know the code


async def create(services: Services, call: KafkaCall) -> CreatePartitionsResponse:
    """Raise partition counts, each topic on its own."""
    request: CreatePartitionsRequest = call.request
    turns = Turns(call, request.timeout_ms)
    codes = {
        ErrorCode.INVALID_CONFIG: ErrorCode.INVALID_PARTITIONS,
        **throttle_codes(call.version >= _THROTTLES),
    }
    twice = repeated(topic.name for topic in request.topics)

    async def grow(wanted: CreatePartitionsTopic) -> None:
        await turns.take()
        if wanted.name in twice:
            raise Refused(ErrorCode.INVALID_REQUEST, "the request names this topic twice")
        await _grow(services, call, wanted, request.validate_only)

    results, throttle_ms = [], 0
    for topic in request.topics:
        done = await outcome(grow(topic), codes)
        throttle_ms = max(throttle_ms, done.throttle_ms)
        results.append(
            CreatePartitionsTopicResult(
                name=topic.name, error_code=done.code, error_message=done.text
            )
        )
    return CreatePartitionsResponse(throttle_time_ms=throttle_ms, results=results)


async def _grow(
    services: Services, call: KafkaCall, wanted: CreatePartitionsTopic, validate_only: bool
) -> None:
    """Raises: TalosError, Refused."""
    context, caller = services.broker.context, call.caller
    topic = await found(
        services, lambda: context.find_topic(caller, Permission.CHANGE_TOPIC, wanted.name)
    )
    if wanted.assignments:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions cannot be assigned to servers by hand: placement decides",
        )
    if wanted.count <= topic.partitions:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {wanted.name} has {topic.partitions} partitions; the new count must be larger, "
            f"not {wanted.count}",
        )
    change = AttributeChange(partitions=wanted.count)
    if validate_only:
        services.broker.topics.trials.change_attribute(caller, topic.resource, change)
    else:
        await services.broker.topics.change_attribute(caller, topic.resource, change)

"""CreateTopics and DeleteTopics.

The store replicates what is written, so any replication factor is accepted and 1 is shown; which
server has a partition is decided by placement, so assignments are refused.
"""

from typing import Final, NamedTuple

from opentalos.broker.values import NewTopic, Topic
from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.handlers.admin.outcome import (
    DONE,
    Outcome,
    Refused,
    Turns,
    found,
    outcome_of,
    repeated,
    throttle_codes,
)
from opentalos.gateway.kafka.handlers.admin.topic_configs import (
    CONFIGS,
    Asked,
    asked_at_creation,
    check_fixed,
    source_of,
)
from opentalos.gateway.kafka.names import NO_ID
from opentalos.model.errors import InvalidName, TalosError, TopicExists, TopicNotExist
from opentalos.model.identity import Permission
from opentalos.model.settings.partitioning import with_partitioner
from opentalos.wire.kafka._generated.create_topics_request import (
    CreatableTopic,
    CreateTopicsRequest,
)
from opentalos.wire.kafka._generated.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from opentalos.wire.kafka._generated.delete_topics_request import (
    DeleteTopicsRequest,
)
from opentalos.wire.kafka._generated.delete_topics_response import (
    DeletableTopicResult,
    DeleteTopicsResponse,
)
from opentalos.wire.kafka.errors import ErrorCode

REPLICAS: Final = 1  # shown of every partition
_DEFAULT: Final = -1
_THROTTLES_CREATE, _THROTTLES_DELETE = 6, 5  # first versions whose clients know the code


async def create(services: Services, call: KafkaCall) -> CreateTopicsResponse:
    """Create topics, each on its own."""
    request: CreateTopicsRequest = call.request
    turns, codes = (
        Turns(call, request.timeout_ms),
        throttle_codes(call.version >= _THROTTLES_CREATE),
    )
    twice = repeated(topic.name for topic in request.topics)
    results, throttle_ms = [], 0
    for wanted in request.topics:
        try:
            await turns.take()
            if wanted.name in twice:
                raise Refused(ErrorCode.INVALID_REQUEST, "the request names this topic twice")
            topic = await _create(services, call, wanted, request.validate_only)
        except (TalosError, Refused) as error:
            failed = outcome_of(error, codes)
            throttle_ms = max(throttle_ms, failed.throttle_ms)
            results.append(
                CreatableTopicResult(
                    name=wanted.name, error_code=failed.code, error_message=failed.text
                )
            )
        else:
            topic_id = NO_ID if request.validate_only else bytes.fromhex(topic.uuid)
            results.append(
                CreatableTopicResult(
                    name=wanted.name,
                    topic_id=topic_id,
                    error_message=None,
                    num_partitions=topic.partitions,
                    replication_factor=REPLICAS,
                    configs=_configs(services, topic),
                )
            )
    return CreateTopicsResponse(throttle_time_ms=throttle_ms, topics=results)


async def _create(
    services: Services, call: KafkaCall, wanted: CreatableTopic, validate_only: bool
) -> Topic:
    """Raises: TalosError, Refused."""
    broker = services.broker
    _check_exists(services, call, wanted.name)
    new, asked = _new_topic(services, wanted)
    planned = broker.topics.trials.create_topic(call.caller, new)
    check_fixed(planned, asked, broker.context.config)
    return planned if validate_only else await broker.topics.create_topic(call.caller, new)


def _check_exists(services: Services, call: KafkaCall, name: str) -> None:
    """Raises: TopicExists: the name is of another owner's topic, on which the caller has a right.

    Kafka answers so to a client that has CREATE on the topic, and the client continues with it.
    """
    if "/" not in name:
        return
    try:
        services.broker.overview.usable_topic(call.caller, name)
    except (TopicNotExist, InvalidName):
        return
    raise TopicExists(f"topic {name} exists")


def _new_topic(services: Services, wanted: CreatableTopic) -> tuple[NewTopic, Asked]:
    """Raises: TalosError, Refused."""
    if wanted.assignments:
        raise Refused(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions cannot be assigned to servers by hand: placement decides",
        )
    if wanted.replication_factor != _DEFAULT and wanted.replication_factor < 1:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "the replication factor must be -1 or above 0; the store replicates, whatever it is",
        )
    limits = services.broker.context.config.topic
    partitions = wanted.num_partitions
    if partitions == _DEFAULT:
        partitions = limits.partitions_default
    if not 1 <= partitions <= limits.partitions_max:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"a topic has 1 to {limits.partitions_max} partitions, not {partitions}",
        )
    asked = asked_at_creation({config.name: config.value for config in wanted.configs})
    new = NewTopic(
        name=wanted.name,
        partitions=partitions,
        retention_s=asked.retention_s,
        attributes=with_partitioner(asked.attributes),
    )
    return new, asked


def _configs(services: Services, topic: Topic) -> list[CreatableTopicConfigs]:
    config = services.broker.context.config
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value(topic, config),
            read_only=entry.read_only,
            config_source=int(source_of(entry, topic, config)),
        )
        for entry in CONFIGS.values()
    ]


class _Doomed(NamedTuple):
    """A topic to delete by ``name``, else by ``topic_id``."""

    name: str | None
    topic_id: bytes


async def delete(services: Services, call: KafkaCall) -> DeleteTopicsResponse:
    """Delete topics, each on its own, by name or by id."""
    request: DeleteTopicsRequest = call.request
    doomed = await call.each(request.topic_names, lambda name: _Doomed(name, NO_ID))
    doomed += await call.each(request.topics, lambda each: _Doomed(each.name, each.topic_id))
    turns, codes = (
        Turns(call, request.timeout_ms),
        throttle_codes(call.version >= _THROTTLES_DELETE),
    )
    twice = repeated(doomed)
    results, throttle_ms = [], 0
    for topic in doomed:
        name, outcome = topic.name, DONE
        try:
            await turns.take()
            if topic in twice:
                raise Refused(ErrorCode.INVALID_REQUEST, "the request names this topic twice")
            name = await _delete(services, call, topic)
        except (TalosError, Refused) as error:
            outcome = _failed(topic, error, outcome_of(error, codes))
        throttle_ms = max(throttle_ms, outcome.throttle_ms)
        results.append(
            DeletableTopicResult(
                name=name,
                topic_id=topic.topic_id,
                error_code=outcome.code,
                error_message=outcome.text,
            )
        )
    return DeleteTopicsResponse(throttle_time_ms=throttle_ms, responses=results)


def _failed(topic: _Doomed, error: TalosError | Refused, outcome: Outcome) -> Outcome:
    if topic.name is None and isinstance(error, TopicNotExist):
        return outcome._replace(code=int(ErrorCode.UNKNOWN_TOPIC_ID))
    return outcome


async def _delete(services: Services, call: KafkaCall, doomed: _Doomed) -> str:
    """The name as the client knows it. Raises: TalosError, Refused."""
    context, caller, name = services.broker.context, call.caller, doomed.name
    if (name is None) == (doomed.topic_id == NO_ID):
        raise Refused(ErrorCode.INVALID_REQUEST, "name a topic either by name or by id")

    def find() -> Topic:
        if name is not None:
            return context.find_topic(caller, Permission.CHANGE_TOPIC, name)
        return context.topic_of_uuid(caller, Permission.CHANGE_TOPIC, doomed.topic_id.hex())

    topic = await found(services, find)
    await services.broker.topics.delete_topic(caller, topic.resource)
    return topic.name if name is None else name

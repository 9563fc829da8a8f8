"""DescribeConfigs and IncrementalAlterConfigs of topics, and what servers show of theirs."""

from enum import IntEnum
from typing import Any, Final

from opentalos.broker.values import Topic
from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.handlers.admin.outcome import (
    ITEMS_MAX,
    Refused,
    Turns,
    found,
    outcome,
    outcome_of,
    repeated,
)
from opentalos.gateway.kafka.handlers.admin.server_configs import SERVER_CONFIGS
from opentalos.gateway.kafka.handlers.admin.topic_configs import (
    CONFIGS,
    Asked,
    Source,
    TopicConfig,
    ask,
    check_fixed,
    source_of,
)
from opentalos.model.errors import TalosError
from opentalos.model.identity import Permission
from opentalos.wire.kafka._generated.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from opentalos.wire.kafka._generated.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from opentalos.wire.kafka._generated.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from opentalos.wire.kafka._generated.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from opentalos.wire.kafka.errors import ErrorCode


class Resource(IntEnum):
    """What has settings. Source: Apache Kafka 4.3, ConfigResource.Type."""

    TOPIC = 2
    SERVER = 4


WORDY_MAX: Final = 500  # resources of a request; the answer is encoded in one turn of the loop
_NO_CHANGE: Final = "settings of servers are in their configuration files"


async def describe(services: Services, call: KafkaCall) -> DescribeConfigsResponse:
    """Settings of topics that the caller may describe, and of this server."""
    request: DescribeConfigsRequest = call.request
    wordy = request.include_synonyms or request.include_documentation
    turns, results = Turns(items_max=WORDY_MAX if wordy else ITEMS_MAX), []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        result = DescribeConfigsResult(error_message=None, resource_type=kind, resource_name=name)
        try:
            await turns.take()
            result.configs = await _described(services, call, resource)
        except (TalosError, Refused) as error:
            result.error_code, result.error_message = outcome_of(error)
        results.append(result)
    return DescribeConfigsResponse(results=results)


async def _described(
    services: Services, call: KafkaCall, resource: DescribeConfigsResource
) -> list[DescribeConfigsResourceResult]:
    """Raises: TalosError, Refused."""
    request: DescribeConfigsRequest = call.request
    kind, name = resource.resource_type, resource.resource_name
    if kind == Resource.TOPIC:
        context = services.broker.context
        topic = await found(
            services, lambda: context.find_topic(call.caller, Permission.DESCRIBE_TOPIC, name)
        )
        shown = [_of_topic(services, request, entry, topic) for entry in CONFIGS.values()]
    elif kind == Resource.SERVER:
        if name and not name.isdigit():
            raise Refused(ErrorCode.INVALID_REQUEST, "a server is named by its number")
        # Without a name: what was changed for all servers while they run; nothing can be.
        shown = _of_server(services, request) if name else []
    else:
        raise Refused(ErrorCode.INVALID_REQUEST, "only topics and brokers have settings here")
    wanted = resource.configuration_keys
    return shown if not wanted else [entry for entry in shown if entry.name in wanted]


def _of_topic(
    services: Services, request: DescribeConfigsRequest, entry: TopicConfig, topic: Topic
) -> DescribeConfigsResourceResult:
    config = services.broker.context.config
    value, source = entry.value(topic, config), source_of(entry, topic, config)
    own = DescribeConfigsSynonym(name=entry.name, value=value, source=int(source))
    server = DescribeConfigsSynonym(
        name=entry.server_name or entry.name,
        value=entry.default(config),
        source=int(Source.DEFAULT),
    )
    synonyms = [own, server] if source is Source.TOPIC else [server]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=value,
        read_only=entry.read_only,
        config_source=int(source),
        synonyms=synonyms if request.include_synonyms else [],
        config_type=int(entry.kind),
        documentation=entry.text if request.include_documentation else None,
    )


def _of_server(
    services: Services, request: DescribeConfigsRequest
) -> list[DescribeConfigsResourceResult]:
    shown = []
    for entry in SERVER_CONFIGS:
        value = entry.value(services)
        own = DescribeConfigsSynonym(name=entry.name, value=value, source=int(entry.source))
        shown.append(
            DescribeConfigsResourceResult(
                name=entry.name,
                value=value,
                read_only=True,
                config_source=int(entry.source),
                synonyms=[own] if request.include_synonyms else [],
                config_type=int(entry.kind),
                documentation=entry.text if request.include_documentation else None,
            )
        )
    return shown


async def alter(services: Services, call: KafkaCall) -> IncrementalAlterConfigsResponse:
    """Change settings of topics; all of one topic's in one change, or none."""
    request: IncrementalAlterConfigsRequest = call.request
    turns = Turns()
    twice = repeated(_key(resource) for resource in request.resources)

    async def change(resource: AlterConfigsResource) -> None:
        await turns.take()
        if _key(resource) in twice:
            raise Refused(ErrorCode.INVALID_REQUEST, "the request names this resource twice")
        await _alter(services, call, resource, request.validate_only)

    results: list[Any] = []
    throttle_ms = 0
    for resource in request.resources:
        done = await outcome(change(resource))
        throttle_ms = max(throttle_ms, done.throttle_ms)
        results.append(
            AlterConfigsResourceResponse(
                error_code=done.code,
                error_message=done.text,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return IncrementalAlterConfigsResponse(throttle_time_ms=throttle_ms, responses=results)


def _key(resource: AlterConfigsResource) -> tuple[int, str]:
    return (resource.resource_type, resource.resource_name)


async def _alter(
    services: Services, call: KafkaCall, resource: AlterConfigsResource, validate_only: bool
) -> None:
    """Raises: TalosError, Refused."""
    if resource.resource_type == Resource.SERVER:
        raise Refused(ErrorCode.INVALID_REQUEST, _NO_CHANGE)
    if resource.resource_type != Resource.TOPIC:
        raise Refused(ErrorCode.INVALID_REQUEST, "only topics have settings that can be changed")
    if repeated(config.name for config in resource.configs):
        raise Refused(ErrorCode.INVALID_REQUEST, "the request names a setting twice")
    broker, caller = services.broker, call.caller
    context = broker.context
    topic = await found(
        services,
        lambda: context.find_topic(caller, Permission.CHANGE_TOPIC, resource.resource_name),
    )
    asked = Asked()
    for config in resource.configs:
        ask(asked, config.name, config.config_operation, config.value, context.config)
    planned = broker.topics.trials.change_attribute(caller, topic.resource, asked.change)
    check_fixed(planned, asked, context.config)
    if asked.changes and not validate_only:
        await broker.topics.change_attribute(caller, topic.resource, asked.change)

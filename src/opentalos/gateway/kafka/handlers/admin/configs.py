"""Settings of topics, shown and changed, and what servers show of theirs.

Source: Apache Kafka 4.3, protocol guide; KIP-339 for the difference between the two changes.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from opentalos.broker.context import BrokerConfig
from opentalos.broker.values import Topic
from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.handlers.admin.outcome import (
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
    asked_instead,
    check_fixed,
    source_of,
)
from opentalos.model.errors import TalosError
from opentalos.model.identity import Permission
from opentalos.wire.kafka._generated import (
    alter_configs_request as replacing,
)
from opentalos.wire.kafka._generated import (
    alter_configs_response as replaced,
)
from opentalos.wire.kafka._generated import (
    incremental_alter_configs_response as changed,
)
from opentalos.wire.kafka._generated.alter_configs_response import AlterConfigsResponse
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
from opentalos.wire.kafka._generated.incremental_alter_configs_request import AlterConfigsResource
from opentalos.wire.kafka._generated.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)
from opentalos.wire.kafka.errors import ErrorCode


class Resource(IntEnum):
    """What has settings. Source: Apache Kafka 4.3, ConfigResource.Type."""

    TOPIC = 2
    SERVER = 4


_COST: Final = 128  # of what is described, in items of ``KafkaCall.piece``
_NO_CHANGE: Final = "settings of servers are in their configuration files"


async def describe(services: Services, call: KafkaCall) -> DescribeConfigsResponse:
    """Settings of topics that the caller may describe, and of this server."""
    request: DescribeConfigsRequest = call.request
    turns, results = Turns(call, cost=_COST), []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        result = DescribeConfigsResult(error_message=None, resource_type=kind, resource_name=name)
        try:
            call.check()
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
    """Change the settings that are named."""
    done = await _change(services, call, _operations)
    return IncrementalAlterConfigsResponse(
        throttle_time_ms=max((each.throttle_ms for each in done), default=0),
        responses=await call.each(
            done, lambda each: changed.AlterConfigsResourceResponse(**each.fields)
        ),
    )


async def replace(services: Services, call: KafkaCall) -> AlterConfigsResponse:
    """Set the settings that are named, and all others to their defaults."""
    done = await _change(services, call, _replacements)
    return AlterConfigsResponse(
        throttle_time_ms=max((each.throttle_ms for each in done), default=0),
        responses=await call.each(
            done, lambda each: replaced.AlterConfigsResourceResponse(**each.fields)
        ),
    )


class _Changed(NamedTuple):
    """What became of one resource, and how the response says it."""

    throttle_ms: int
    fields: Mapping[str, Any]


def _operations(resource: AlterConfigsResource, config: BrokerConfig) -> Asked:
    """Raises: Refused."""
    asked = Asked()
    for each in resource.configs:
        ask(asked, each.name, each.config_operation, each.value, config)
    return asked


def _replacements(resource: replacing.AlterConfigsResource, config: BrokerConfig) -> Asked:
    """Raises: Refused."""
    return asked_instead({each.name: each.value for each in resource.configs}, config)


async def _change(
    services: Services, call: KafkaCall, asked_of: Callable[[Any, BrokerConfig], Asked]
) -> list[_Changed]:
    """All settings of one topic in one change, or none."""
    resources, turns = call.request.resources, Turns(call)
    twice = repeated(_key(resource) for resource in resources)

    async def change(resource: Any) -> None:
        await turns.take()
        if _key(resource) in twice:
            raise Refused(ErrorCode.INVALID_REQUEST, "the request names this resource twice")
        await _alter(services, call, resource, asked_of)

    results = []
    for resource in resources:
        done = await outcome(change(resource))
        fields = {
            "error_code": done.code,
            "error_message": done.text,
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }
        results.append(_Changed(done.throttle_ms, fields))
    return results


def _key(resource: Any) -> tuple[int, str]:
    return (resource.resource_type, resource.resource_name)


async def _alter(
    services: Services,
    call: KafkaCall,
    resource: Any,
    asked_of: Callable[[Any, BrokerConfig], Asked],
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
    asked = asked_of(resource, context.config)
    planned = broker.topics.trials.change_attribute(caller, topic.resource, asked.change)
    check_fixed(planned, asked, context.config)
    if asked.changes and not call.request.validate_only:
        await broker.topics.change_attribute(caller, topic.resource, asked.change)

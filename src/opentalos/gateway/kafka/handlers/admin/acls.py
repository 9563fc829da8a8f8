"""DescribeAcls and DeleteAcls: permissions of topics, as ``acl_terms`` maps them."""

from collections.abc import Sequence
from typing import Final

from opentalos.broker.values import Topic
from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.handlers.admin.acl_terms import (
    ANY_HOST,
    BITS,
    Entry,
    Filter,
    PatternType,
    PermissionType,
    ResourceType,
    entries_of,
    filter_of,
)
from opentalos.gateway.kafka.handlers.admin.outcome import (
    Outcome,
    Refused,
    Turns,
    found,
    outcome,
    outcome_of,
)
from opentalos.gateway.kafka.names import name_of
from opentalos.model.errors import InvalidName, PermissionDenied, TalosError, TopicNotExist
from opentalos.model.identity import Permission
from opentalos.wire.kafka._generated.delete_acls_request import DeleteAclsRequest
from opentalos.wire.kafka._generated.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from opentalos.wire.kafka._generated.describe_acls_response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from opentalos.wire.kafka.errors import ErrorCode

ENTRIES_MAX: Final = 10_000  # that one filter may match
_COST: Final = 12  # of a topic, in items of ``KafkaCall.piece``


async def describe(services: Services, call: KafkaCall) -> DescribeAclsResponse:
    """Entries of the topics that the caller may describe; to grantees, only their own."""
    try:
        call.check()
        asked = filter_of(call.request)
        entries = [] if asked is None else await _matching(services, call, asked)
    except (TalosError, Refused) as error:
        failed = outcome_of(error)
        return DescribeAclsResponse(error_code=failed.code, error_message=failed.text)
    resources: dict[str, DescribeAclsResource] = {}
    for entry in entries:
        await call.piece()
        resource = resources.get(entry.topic)
        if resource is None:
            resource = resources[entry.topic] = DescribeAclsResource(
                resource_type=int(ResourceType.TOPIC),
                resource_name=entry.topic,
                pattern_type=int(PatternType.LITERAL),
                acls=[],
            )
        resource.acls.append(
            AclDescription(
                principal=entry.principal,
                host=ANY_HOST,
                operation=int(entry.operation),
                permission_type=int(PermissionType.ALLOW),
            )
        )
    return DescribeAclsResponse(error_message=None, resources=list(resources.values()))


async def delete(services: Services, call: KafkaCall) -> DeleteAclsResponse:
    """Take back what the filters match, each filter on its own."""
    request: DeleteAclsRequest = call.request
    turns, results, throttle_ms = Turns(call), [], 0
    for each in request.filters:
        try:
            await turns.take()
            asked = filter_of(each)
            entries = [] if asked is None else await _matching(services, call, asked)
        except (TalosError, Refused) as error:
            failed = outcome_of(error)
            results.append(
                DeleteAclsFilterResult(error_code=failed.code, error_message=failed.text)
            )
            continue
        outcomes = await _revoke(services, call, entries)
        throttle_ms = max(throttle_ms, *(done.throttle_ms for done in outcomes), 0)
        pairs = list(zip(entries, outcomes, strict=True))
        matching = await call.each(pairs, lambda pair: _shown(*pair))
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=matching))
    return DeleteAclsResponse(throttle_time_ms=throttle_ms, filter_results=results)


async def _revoke(services: Services, call: KafkaCall, entries: Sequence[Entry]) -> list[Outcome]:
    """Entries of one grantee on one topic are one change."""
    permissions: dict[tuple[str, str], Permission] = {}
    for entry in entries:
        key = (entry.resource, entry.identifier)
        permissions[key] = permissions.get(key, Permission.NONE) | BITS[entry.operation]
    revoke = services.broker.permissions.revoke_some
    done = {
        key: await outcome(revoke(call.caller, *key, permission))
        for key, permission in permissions.items()
    }
    return [done[entry.resource, entry.identifier] for entry in entries]


def _shown(entry: Entry, done: Outcome) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=done.code,
        error_message=done.text,
        resource_type=int(ResourceType.TOPIC),
        resource_name=entry.topic,
        pattern_type=int(PatternType.LITERAL),
        principal=entry.principal,
        host=ANY_HOST,
        operation=int(entry.operation),
        permission_type=int(PermissionType.ALLOW),
    )


async def _matching(services: Services, call: KafkaCall, asked: Filter) -> list[Entry]:
    """Raises: Refused: too many; Unavailable."""
    entries: list[Entry] = []
    for topic in await _topics(services, call, asked.topic):
        await call.piece(_COST)
        entries += _entries(services, call, asked, topic)
        if len(entries) > ENTRIES_MAX:
            text = f"more than {ENTRIES_MAX} entries match: name a topic"
            raise Refused(ErrorCode.INVALID_REQUEST, text)
    return entries


async def _topics(services: Services, call: KafkaCall, name: str) -> Sequence[Topic]:
    broker, caller = services.broker, call.caller
    if not name:
        return await broker.overview.listed_topics(caller)
    find = broker.context.find_topic
    try:
        return [await found(services, lambda: find(caller, Permission.DESCRIBE_TOPIC, name))]
    except (TopicNotExist, PermissionDenied, InvalidName):
        return []  # as in Kafka, a filter that matches nothing is no error


def _entries(services: Services, call: KafkaCall, asked: Filter, topic: Topic) -> list[Entry]:
    """Of a topic that may be gone by now."""
    broker, caller = services.broker, call.caller
    try:
        masks = broker.permissions.list_permission(caller, topic.resource)
    except (TopicNotExist, PermissionDenied):
        return []
    name = name_of(services, caller, topic)
    return [
        entry
        for identifier, mask in masks.items()
        if identifier != topic.owner and asked.identifier in ("", identifier)
        for entry in entries_of(name, topic.resource, identifier, mask & int(asked.permission))
    ]

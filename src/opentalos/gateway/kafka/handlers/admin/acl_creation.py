"""CreateAcls: entries become permissions of topics, all of a request or none.

Tools send several entries at once that belong together, so what can be refused beforehand is: when
one entry of a request cannot be granted, no other one is. Only what fails while the grants are
written, one topic and grantee after the other, has an outcome of its own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from opentalos.broker.values import Topic
from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.handlers.admin.acl_terms import Grant, grant_of
from opentalos.gateway.kafka.handlers.admin.outcome import (
    COST,
    DONE,
    Outcome,
    Refused,
    Turns,
    found,
    outcome,
    outcome_of,
)
from opentalos.model.errors import TalosError
from opentalos.model.identity import Permission
from opentalos.wire.kafka._generated.create_acls_request import CreateAclsRequest
from opentalos.wire.kafka._generated.create_acls_response import (
    AclCreationResult,
    CreateAclsResponse,
)
from opentalos.wire.kafka.errors import ErrorCode

_Places = Mapping[int, Grant]  # by their place in the request


async def create(services: Services, call: KafkaCall) -> CreateAclsResponse:
    """Grant; entries of one grantee on one topic are one change."""
    request: CreateAclsRequest = call.request
    turns, grants, refused = Turns(call), dict[int, Grant](), dict[int, Outcome]()
    for place, creation in enumerate(request.creations):
        try:
            await turns.take()
            grants[place] = grant_of(creation)
        except Refused as error:
            refused[place] = outcome_of(error)
    of_topics: dict[str, dict[int, Grant]] = {}
    for place, grant in grants.items():
        if grant.topic is not None:
            of_topics.setdefault(grant.topic, {})[place] = grant
    resources: dict[str, str] = {}
    for name, some in of_topics.items():
        await call.piece(COST)
        try:
            topic = await _topic(services, call, name)
            refused |= _unmet(services, call, topic, some)
            resources[name] = topic.resource
        except TalosError as error:
            refused |= dict.fromkeys(some, outcome_of(error))
    places = range(len(request.creations))
    if refused:
        first = refused[min(refused)]
        other = first._replace(text=f"nothing of this request was granted: {first.text}")
        return await _response(call, lambda place: refused.get(place, other), places)
    done = dict.fromkeys(places, DONE)
    for name, some in of_topics.items():
        done |= await _granted(services, call, resources[name], some)
    return await _response(call, done.__getitem__, places)


async def _topic(services: Services, call: KafkaCall, name: str) -> Topic:
    """Raises: TalosError."""
    find, action = services.broker.context.find_topic, Permission.CHANGE_PERMISSION
    return await found(services, lambda: find(call.caller, action, name))


def _unmet(
    services: Services, call: KafkaCall, topic: Topic, grants: _Places
) -> Mapping[int, Outcome]:
    """Entries that would not be allowed even after the others are granted. Raises: TalosError."""
    after = services.broker.permissions.try_grants(
        call.caller, topic.resource, _by_grantee(grants.values())
    )
    return {
        place: Outcome(int(ErrorCode.INVALID_REQUEST), grant.unmet)
        for place, grant in grants.items()
        if grant.needs and not after[grant.identifier] & grant.needs
    }


def _by_grantee(grants: Iterable[Grant]) -> dict[str, Permission]:
    permissions: dict[str, Permission] = {}
    for grant in grants:
        before = permissions.get(grant.identifier, Permission.NONE)
        permissions[grant.identifier] = before | grant.permission
    return permissions


async def _granted(
    services: Services, call: KafkaCall, resource: str, grants: _Places
) -> Mapping[int, Outcome]:
    """Write what is not there without it."""
    grant_more, done = services.broker.permissions.grant_more, dict[str, Outcome]()
    for identifier, permission in _by_grantee(grants.values()).items():
        done[identifier] = DONE
        if permission:
            more = grant_more(call.caller, resource, identifier, permission)
            done[identifier] = await outcome(more)
    return {place: done[grant.identifier] for place, grant in grants.items()}


async def _response(
    call: KafkaCall, outcome_at: Callable[[int], Outcome], places: Sequence[int]
) -> CreateAclsResponse:
    throttle_ms = 0

    def result(place: int) -> AclCreationResult:
        nonlocal throttle_ms
        done = outcome_at(place)
        throttle_ms = max(throttle_ms, done.throttle_ms)
        return AclCreationResult(error_code=done.code, error_message=done.text)

    results = await call.each(places, result)
    return CreateAclsResponse(throttle_time_ms=throttle_ms, results=results)

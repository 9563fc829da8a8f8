"""REST of the cluster: status, drain, weights; for service administrators."""

from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from typing import Any

from opentalos.broker.cluster.service import (
    ClusterService,
    ClusterStatus,
    ServerState,
    ServerStatus,
)
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.errors import NotClustered
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import (
    Schema,
    boolean,
    either,
    fields,
    integer,
    items,
    one_of,
    table,
    text,
)

NODES_MAX = 1 << 31  # that can be sent; the service has its own limit
SECTORS_MAX = 1_000
SERVERS_MAX = 1_000

_MOVE = fields(
    topic_uuid=text(), partition=integer(), source=text(), target=text(), planned=boolean(),
    at_ms=integer(about="When it was published; 0: not known here."),
    ended_ms=integer(about="When the former server had released it; 0: not yet, or not known."),
)  # fmt: skip
_SERVER = fields(
    name=text(),
    state=one_of(*(state.value for state in ServerState)),
    address=text(),
    incarnation=text(),
    virtual_nodes=integer(),
    sectors=items(integer()),
    partitions=integer(),
    started_ms=integer(),
    answers=boolean("Whether it was reached; if not, its counters are empty."),
    counters=table(integer()),
)
_STATUS = fields(
    leader=text(),
    ring_number=integer(),
    servers=items(_SERVER),
    partitions=integer(),
    unassigned=integer(),
    lent=integer(),
    moving=items(_MOVE),
    recent=items(_MOVE),
    clustered=boolean("False: a single server."),
    answered_by=text(),
    optional={"forwarding": table(integer())},
)
_PLACE = fields(partition=integer(), address=text(), epoch=integer(), owner=text())
_NODES: Schema = either(integer(0, NODES_MAX), items(integer(0, NODES_MAX), maximum=SECTORS_MAX))
WEIGHTS = fields(servers=table(_NODES, maximum=SERVERS_MAX))


_USE = "use the cluster"


async def get_status(call: Call) -> Answer:
    """Servers, their partitions and moves."""
    service = call.broker.cluster
    status = await service.status(call.caller) if service else _alone(call)
    shown: dict[str, Any] = _plain(asdict(status))
    shown["clustered"] = service is not None
    shown["answered_by"] = call.broker.context.config.server
    if call.forwarding is not None:
        shown["forwarding"] = call.forwarding.counters()
    return Answer(shown)


async def get_partitions(call: Call) -> Answer:
    """Partitions by topic uuid."""
    return Answer({"topics": dict(await service_of(call).partitions(call.caller))})


async def set_weights(call: Call) -> Answer:
    """Virtual nodes by server."""
    await service_of(call, "set weights").set_weights(call.caller, call.document["servers"])
    return Answer()


async def drain(call: Call) -> Answer:
    """Move all partitions away from a server."""
    await service_of(call, "drain a server").drain(call.caller, call.places["server"])
    return Answer()


async def undrain(call: Call) -> Answer:
    """End the drain of a server."""
    await service_of(call, "end the drain of a server").undrain(call.caller, call.places["server"])
    return Answer()


async def get_places(call: Call) -> Answer:
    """Where the partitions of a topic are."""
    service_of(call)
    places, name = call.broker.places, call.places["topic"]
    assert places is not None, "a member of a cluster knows the places"
    found = await places.of_topic(call.caller, name)
    return Answer({"name": name, "partitions": [asdict(place) for place in found]})


def service_of(call: Call, action: str = _USE) -> ClusterService:
    """Args: action: as the service authorizes it. Raises: PermissionDenied, NotClustered."""
    if call.broker.cluster is None:
        _authorize(call, action)
        raise NotClustered("this needs a cluster, but this is a single server")
    return call.broker.cluster


def _alone(call: Call) -> ClusterStatus:
    _authorize(call, _USE)
    context = call.broker.context
    partitions = sum(topic.consumer_partitions for topic in context.topics.all())
    me = ServerStatus(
        name=context.config.server,
        state=ServerState.SERVING,
        address=next(iter(context.ownership.addresses("", 1))),
        partitions=partitions,
        answers=True,
    )
    return ClusterStatus(
        leader=me.name,
        ring_number=0,
        servers=[me],
        partitions=partitions,
        unassigned=0,
        moving=[],
        recent=[],
    )


def _authorize(call: Call, action: str) -> None:
    call.broker.context.authorizer.authorize_admin(call.caller, action, "cluster")


def _plain(value: Any) -> Any:
    """The value as JSON has it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


_TAG = "cluster"
_ALONE = (409,)
ROUTES = (
    Route(
        method="GET", path="cluster", handler=get_status, tag=_TAG, reply=_STATUS,
        summary="Show servers, partitions and moves; for administrators.",
    ),
    Route(
        method="GET", path="cluster/partitions", handler=get_partitions, tag=_TAG,
        summary="Count the partitions of each topic, by its uuid; for administrators.",
        reply=fields(topics=table(integer())), statuses=_ALONE,
    ),
    Route(
        method="PUT", path="cluster/weights", handler=set_weights, tag=_TAG, status=204,
        summary="Set the virtual nodes of servers: one number per server, or one per sector.",
        body=Body(WEIGHTS), statuses=_ALONE,
    ),
    Route(
        method="POST", path="cluster/servers/{server}/drain", handler=drain, tag=_TAG, status=204,
        summary="Drain a server: move all its partitions to others.", statuses=_ALONE,
    ),
    Route(
        method="DELETE", path="cluster/servers/{server}/drain", handler=undrain, tag=_TAG,
        status=204, summary="End the drain of a server: it gets partitions again.", statuses=_ALONE,
    ),
    Route(
        method="GET", path="cluster/topics/{topic}", handler=get_places, tag=_TAG,
        summary="Show the servers of a topic's partitions; for administrators.",
        reply=fields(name=text(), partitions=items(_PLACE)), statuses=_ALONE,
    ),
)  # fmt: skip

"""REST of group mode: workers hold partitions by leases, like workers of the SDKs."""

from opentalos.broker.groups.rest_workers import Membership, Seat
from opentalos.gateway.rest.group.groups import offsets_of, offsets_schema
from opentalos.gateway.rest.message.format import READ, array_of, listed
from opentalos.gateway.rest.message.messages import READ_BOUNDS, bounds_of, wait_of
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import fields, integer, items, number, text
from opentalos.gateway.rest.topic.naming import topic_of
from opentalos.model.identity import Permission

COMMIT_S = 20.0  # for all partitions of a request
_MEMBER = fields(
    worker=text(),
    partitions=items(integer()),
    lease_s=number("Seconds until the lease expires unless it is renewed."),
)


async def join(call: Call) -> Answer:
    """A new worker."""
    member = await call.broker.group_members.join(call.caller, _seat(call))
    return Answer(_shown(member))


async def renew(call: Call) -> Answer:
    """Renew the worker's leases."""
    member = await call.broker.group_members.renew(call.caller, _seat(call))
    return Answer(_shown(member))


async def fetch(call: Call) -> Answer:
    """Messages after the checkpoints of the worker's partitions."""
    call.wait(call.query.get("wait_s", 0))
    found = await call.broker.group_members.fetch(
        call.caller, _seat(call), bounds_of(call), wait_of(call)
    )
    encoding = call.query.get("encoding", "base64")
    messages = await listed(call.broker.work, call.caller.id, found, encoding)
    return Answer(chunks=array_of(messages, b""))


async def commit(call: Call) -> Answer:
    """Commit checkpoints."""
    call.exchange.extend(COMMIT_S)
    offsets = offsets_of(call.document["offsets"])
    done = await call.broker.group_members.commit(call.caller, _seat(call), offsets)
    return Answer({"committed": list(done.committed), "refused": list(done.refused)})


async def leave(call: Call) -> Answer:
    """Release the worker's partitions."""
    await call.broker.group_members.leave(call.caller, _seat(call))
    return Answer()


def _seat(call: Call) -> Seat:
    topic = topic_of(call, Permission.GET_MESSAGE)
    worker = call.places.get("worker", "")
    return Seat(call.places["group"], topic.resource, worker, call.exchange.peer)


def _shown(member: Membership) -> dict[str, object]:
    return {
        "worker": member.worker,
        "partitions": list(member.partitions),
        "lease_s": member.lease_s,
    }


_TAG = "workers"
_PATH = "topics/{topic}/groups/{group}/workers"
ROUTES = (
    Route(
        method="POST", path=_PATH, handler=join, tag=_TAG, status=201, reply=_MEMBER,
        summary="Become a worker of a group, with a share of its partitions.", statuses=(409,),
    ),
    Route(
        method="GET", path=_PATH + "/{worker}/messages", handler=fetch, tag=_TAG,
        summary="Read messages after the checkpoints of the partitions that the worker holds.",
        notes=(
            "Messages are redelivered until they are committed. The call renews the leases and "
            "rebalances partitions as workers join and leave."
        ),
        query=READ_BOUNDS, reply=fields(messages=items(READ)), statuses=(409, 422),
    ),
    Route(
        method="POST", path=_PATH + "/{worker}/commits", handler=commit, tag=_TAG,
        summary="Store checkpoints: the last processed message of each partition.",
        body=Body(fields(offsets=offsets_schema())), statuses=(409, 422),
        reply=fields(committed=items(integer()), refused=items(integer())),
    ),
    Route(
        method="POST", path=_PATH + "/{worker}/renew", handler=renew, tag=_TAG, reply=_MEMBER,
        summary="Renew the leases of a worker.", statuses=(409,),
    ),
    Route(
        method="DELETE", path=_PATH + "/{worker}", handler=leave, tag=_TAG, status=204,
        summary="Release all partitions of a worker.", statuses=(409,),
    ),
)  # fmt: skip

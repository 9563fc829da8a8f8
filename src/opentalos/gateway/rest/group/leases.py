"""REST of leases: which process of a tenant may act under a name, and under which epoch."""

from typing import Any

from opentalos.broker.values import (
    EPOCH_SEEN_MAX,
    HOLDER_CHARS_MAX,
    TTL_MS_MAX,
    TTL_MS_MIN,
    Lease,
    LeaseRequest,
    ObservedLease,
)
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.errors import NoSuchLease
from opentalos.gateway.rest.routing.forms import ASCII, NAME, PRINCIPAL_ID
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import boolean, fields, integer, items, text

_TTL_MS = integer(TTL_MS_MIN, TTL_MS_MAX, "How long it is not renewed at most, milliseconds.")
_EPOCH = integer(0, EPOCH_SEEN_MAX, "Grows with each change of the holder.")
_HOLDER = text(ASCII, chars_max=HOLDER_CHARS_MAX, about="Unique to a process.")
_GRANT = fields(name=text(), holder=text(), epoch=integer(), ttl_ms=integer())
_LEASE = fields(
    name=text(),
    holder=text(),
    epoch=integer(about="Grows with each change of the holder."),
    ttl_ms=integer(),
    unrenewed_ms=integer(about="For so long this server has seen no renewal."),
    expired=boolean("Whether another holder may take it from this server."),
)


async def put_lease(call: Call) -> Answer:
    """Take it, or with an epoch renew it."""
    given, tenant = call.document, call.query.get("tenant", "")
    request = LeaseRequest(
        name=call.places["lease"],
        holder=given["holder"],
        ttl_ms=given["ttl_ms"],
        seen=given.get("seen", 0),
    )
    leases = call.broker.leases
    if "epoch" in given:
        found = await leases.renew(call.caller, request, given["epoch"], tenant)
    else:
        found = await leases.take(call.caller, request, tenant)
    return Answer(_granted(found))


async def get_lease(call: Call) -> Answer:
    """One lease, also an expired one."""
    for found in await call.broker.leases.held(call.caller, call.query.get("tenant", "")):
        if found.lease.name == call.places["lease"]:
            return Answer(_shown(found))
    raise NoSuchLease(f"no lease {call.places['lease']} is held")


async def list_leases(call: Call) -> Answer:
    """By name."""
    found = await call.broker.leases.held(call.caller, call.query.get("tenant", ""))
    return Answer({"leases": [_shown(each) for each in found]})


async def delete_lease(call: Call) -> Answer:
    """Free for the next holder at once."""
    await call.broker.leases.release(
        call.caller,
        call.places["lease"],
        call.query.get("epoch"),
        call.query.get("tenant", ""),
    )
    return Answer()


def _granted(lease: Lease) -> dict[str, Any]:
    return {
        "name": lease.name,
        "holder": lease.holder,
        "epoch": lease.epoch,
        "ttl_ms": lease.ttl_ms,
    }


def _shown(found: ObservedLease) -> dict[str, Any]:
    seen = {"unrenewed_ms": found.unrenewed_ms, "expired": found.expired}
    return {**_granted(found.lease), **seen}


_TAG = "leases"
_PATH = "leases/{lease}"
_PLACES = {"lease": text(NAME, about="Name of a lease.")}
_TENANT = {"tenant": text(PRINCIPAL_ID, about="Another owner of leases; for administrators.")}
ROUTES = (
    Route(
        method="PUT", path=_PATH, handler=put_lease, tag=_TAG, places=_PLACES,
        summary="Take a lease, or renew it under its epoch.",
        body=Body(fields(holder=_HOLDER, ttl_ms=_TTL_MS, optional={
            "epoch": _EPOCH,
            "seen": integer(0, EPOCH_SEEN_MAX, "The highest epoch the holder knows."),
        })),
        query=_TENANT, reply=_GRANT, statuses=(409,),
        notes="Without epoch the lease is taken if it is free, expired or the holder's own; the "
        "reply has the epoch. LeaseHeld (409): another holder has it. With epoch it is renewed; "
        "LeaseNotHeld (409): another holder took it, so stop. The epoch of a grant is higher than "
        "any before, and than seen. Renew it every third of ttl_ms, count ttl_ms from before the "
        "request, and let whatever you write refuse an epoch below the highest it has seen.",
    ),
    Route(
        method="GET", path=_PATH, handler=get_lease, tag=_TAG, places=_PLACES,
        summary="Show who holds a lease.", query=_TENANT, reply=_LEASE,
    ),
    Route(
        method="GET", path=_TAG, handler=list_leases, tag=_TAG,
        summary="List the leases of the caller's tenant.", query=_TENANT,
        reply=fields(leases=items(_LEASE)),
    ),
    Route(
        method="DELETE", path=_PATH, handler=delete_lease, tag=_TAG, places=_PLACES, status=204,
        summary="Release a lease.", statuses=(409,),
        query={**_TENANT, "epoch": integer(
            0, EPOCH_SEEN_MAX, "Only if it is held under this epoch.")},
        notes="Without epoch the lease is taken away from whoever holds it; its next renewal "
        "fails with LeaseNotHeld.",
    ),
)  # fmt: skip

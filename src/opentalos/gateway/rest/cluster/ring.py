"""REST of the hash ring, as it is and as it would be with other weights."""

from typing import Any

from opentalos.broker.cluster.service import Picture
from opentalos.gateway.rest.cluster.cluster import WEIGHTS, service_of
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import boolean, fields, items, number, table, text

_SHARE_DIGITS = 6
_ARC = fields(
    start=number("Share of the ring, 0 to 1."), end=number(), server=text(),
)  # fmt: skip
_RING = fields(
    arcs=items(_ARC),
    shares=table(number("A server's share of the ring.")),
    exact=boolean("False: there are more arcs; each is a slice and names its largest owner."),
)


async def get_ring(call: Call) -> Answer:
    """The ring in force."""
    return Answer(_shown(service_of(call).ring(call.caller)))


async def preview_ring(call: Call) -> Answer:
    """The ring with other weights; nothing is changed."""
    return Answer(_shown(service_of(call).ring(call.caller, call.document["servers"])))


def _shown(found: Picture) -> dict[str, Any]:
    arcs = [
        {
            "start": round(arc.start, _SHARE_DIGITS),
            "end": round(arc.end, _SHARE_DIGITS),
            "server": arc.server,
        }
        for arc in found.arcs
    ]
    shares = {name: round(share, _SHARE_DIGITS) for name, share in found.shares.items()}
    return {"arcs": arcs, "shares": shares, "exact": found.exact}


_TAG = "cluster"
_ALONE = (409,)
ROUTES = (
    Route(
        method="GET", path="cluster/ring", handler=get_ring, tag=_TAG, reply=_RING,
        summary="Show the hash ring: which server owns which part; for administrators.",
        statuses=_ALONE,
        notes="A partition belongs to the server at its point, unless a server had more of a topic "
        "than it may; cluster/topics/{topic} shows where partitions are.",
    ),
    Route(
        method="POST", path="cluster/ring/previews", handler=preview_ring, tag=_TAG, reply=_RING,
        summary="Show the hash ring as it would be with these weights. Nothing is changed.",
        body=Body(WEIGHTS), statuses=_ALONE,
        notes="Servers that are left out keep their weight.",
    ),
)  # fmt: skip

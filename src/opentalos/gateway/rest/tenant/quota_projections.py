"""REST of quota projections: the expected traffic of tenants."""

from opentalos.broker.values import Projection, projection_fields, projection_of
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.forms import PRINCIPAL_ID
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import fields, integer, items, text
from opentalos.model.errors import QuotaNotExist

PROJECTIONS_MAX = 1_000  # of one request; send larger sets in parts
BODY_BYTES_MAX = 2 << 20
RATE_MAX = 1 << 50
DAYS_MAX = 10_000
SEASON_MAX = 1_000_000
_RATE = integer(0, RATE_MAX, "Bytes/s.")
_TENANT = text(PRINCIPAL_ID, about="An owner of topics: organisation or user.")
_PROJECTION = fields(
    tenant=_TENANT,
    made_ms=integer(about="Creation time; an older projection never replaces a newer one."),
    days=integer(0, DAYS_MAX, "Days of history."),
    level=integer(0, RATE_MAX, "Bytes/s of the busiest minute of a day at creation."),
    trend_per_day=integer(-RATE_MAX, RATE_MAX, "Daily growth of the level."),
    season=items(
        integer(0, SEASON_MAX, "Per mille of the level, by weekday, Monday first."),
        minimum=7,
        maximum=7,
    ),
    spread=integer(0, RATE_MAX, "Standard deviation of days from the trend."),
    peak=integer(0, RATE_MAX, "The busiest minute of the last 28 days."),
    optional={
        "repeated_peak": integer(0, RATE_MAX, "Peak that at least two of these days reached."),
        "mean": _RATE,
    },
)


async def put_projections(call: Call) -> Answer:
    """Store the projections of the request."""
    sent = call.document["projections"]
    projections = await call.broker.work.each(call.caller.id, sent, projection_of)
    await call.broker.partition_quotas.put_projections(call.caller, projections)
    return Answer()


async def list_projections(call: Call) -> Answer:
    """By tenant."""
    found = call.broker.partition_quotas.projections(call.caller)
    after, limit = call.query.get("after", ""), call.query.get("limit", PROJECTIONS_MAX)
    names = sorted(name for name in found if name > after)
    shown = [_shown(found[name]) for name in names[:limit]]
    return Answer({"projections": shown, "next": names[limit - 1] if len(names) > limit else ""})


async def get_projection(call: Call) -> Answer:
    """Of one tenant."""
    tenant = call.places["tenant"]
    found = call.broker.partition_quotas.projections(call.caller).get(tenant)
    if found is None:
        raise QuotaNotExist(f"tenant {tenant} has no projection")
    return Answer(_shown(found))


def _shown(projection: Projection) -> dict[str, object]:
    return projection_fields(projection)


_TAG = "quotas"
_PATH = "quota-projections"
ROUTES = (
    Route(
        method="PUT", path=_PATH, handler=put_projections, tag=_TAG, status=204,
        summary="Store projections of tenants' traffic; for administrators.",
        body=Body(
            fields(projections=items(_PROJECTION, minimum=1, maximum=PROJECTIONS_MAX)),
            bytes_max=BODY_BYTES_MAX,
        ),
        statuses=(409,),
    ),
    Route(
        method="GET", path=_PATH, handler=list_projections, tag=_TAG,
        summary="List projections: all for administrators, else the caller's own.",
        query={
            "after": text(chars_max=128, about="The `next` of the previous reply."),
            "limit": integer(1, PROJECTIONS_MAX),
        },
        reply=fields(projections=items(_PROJECTION), next=text(about="Empty: the end.")),
    ),
    Route(
        method="GET", path=f"{_PATH}/{{tenant}}", handler=get_projection, tag=_TAG,
        summary="Show the projection of a tenant; of others for administrators.",
        places={"tenant": _TENANT}, reply=_PROJECTION,
    ),
)  # fmt: skip

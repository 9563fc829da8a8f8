"""REST of quota projections: what tenants' traffic is expected to be."""

from opentalos.broker.values import Projection, projection_fields, projection_of
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.forms import PRINCIPAL_ID
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import fields, integer, items, text
from opentalos.model.errors import QuotaNotExist

PROJECTIONS_MAX = 1_000  # of one request; a larger set is sent in parts
BODY_BYTES_MAX = 2 << 20
RATE_MAX = 1 << 50
DAYS_MAX = 10_000
SEASON_MAX = 1_000_000
_RATE = integer(0, RATE_MAX, "Bytes/s.")
_TENANT = text(PRINCIPAL_ID, about="An owner of topics: organisation or user.")
_PROJECTION = fields(
    tenant=_TENANT,
    made_ms=integer(about="When it was made; an older one never replaces a newer one."),
    days=integer(0, DAYS_MAX, "Of history."),
    level=integer(0, RATE_MAX, "Bytes/s of the busiest minute of a day when it was made."),
    trend_per_day=integer(-RATE_MAX, RATE_MAX, "By which the level grows each day."),
    season=items(
        integer(0, SEASON_MAX, "Per mille of the level, by weekday, Monday first."),
        minimum=7,
        maximum=7,
    ),
    spread=integer(0, RATE_MAX, "Standard deviation of the days around all that."),
    peak=integer(0, RATE_MAX, "The busiest minute of the latest 28 days."),
    optional={
        "repeated_peak": integer(0, RATE_MAX, "What two of those days reached."),
        "mean": _RATE,
    },
)


async def put_projections(call: Call) -> Answer:
    """All of the request."""
    projections = [projection_of(one) for one in call.document["projections"]]
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
        summary="Store what the traffic of tenants is expected to be; for administrators.",
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
            "after": text(chars_max=128, about="The `next` of the reply before."),
            "limit": integer(1, PROJECTIONS_MAX),
        },
        reply=fields(projections=items(_PROJECTION), next=text(about="Empty: that is all.")),
    ),
    Route(
        method="GET", path=f"{_PATH}/{{tenant}}", handler=get_projection, tag=_TAG,
        summary="Show the projection of a tenant; of others for administrators.",
        places={"tenant": _TENANT}, reply=_PROJECTION,
    ),
)  # fmt: skip

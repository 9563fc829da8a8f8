"""All routes of REST in one table."""

from opentalos.gateway.rest.cluster import (
    cluster,
    health,
    ring,
    series,
    status,
    weight_proposals,
)
from opentalos.gateway.rest.group import groups, leases, workers
from opentalos.gateway.rest.message import events, messages
from opentalos.gateway.rest.routing.forms import GROUP_NAME, NAME, PRINTABLE
from opentalos.gateway.rest.routing.openapi import get_document
from opentalos.gateway.rest.routing.route import Route, RouteTable
from opentalos.gateway.rest.routing.schema import Schema, integer, text
from opentalos.gateway.rest.table import rows as table_rows
from opentalos.gateway.rest.table import streams as table_streams
from opentalos.gateway.rest.table import tables
from opentalos.gateway.rest.tenant import (
    audit,
    encryption,
    invoices,
    principals,
    quota_projections,
    quotas,
    session,
)
from opentalos.gateway.rest.topic import permissions, topics, usage

PARTITIONS_MAX = 1 << 31
# What the variable parts of a path may be. A value that does not fit is answered with 404.
PLACES: dict[str, Schema] = {
    "topic": text(
        PRINTABLE, chars_max=400, about="Plain name, OWNER/NAME or resource name, percent-encoded."
    ),
    "table": text(PRINTABLE, chars_max=400, about="Plain name or OWNER/NAME, percent-encoded."),
    "partition": integer(0, PARTITIONS_MAX),
    "group": text(GROUP_NAME, about="Consumer group."),
    "worker": text(PRINTABLE, chars_max=256),
    "id": text(PRINTABLE, chars_max=128, about="Principal id."),
    "key_id": text(PRINTABLE, chars_max=128),
    "grantee": text(PRINTABLE, chars_max=256, about="Principal, team or organisation; or guest."),
    "name": text(NAME, about="Organisation."),
    "server": text(PRINTABLE, chars_max=128, about="Name of a server."),
}

_DOCUMENT = Route(
    method="GET", path="openapi.json", handler=get_document, tag="about", public=True,
    summary="Get this API's description in OpenAPI 3.1.", reply={"type": "object"},
)  # fmt: skip

TABLE = RouteTable(
    (
        _DOCUMENT,
        *status.ROUTES,
        *health.ROUTES,
        *topics.ROUTES,
        *messages.ROUTES,
        *events.ROUTES,
        *groups.ROUTES,
        *workers.ROUTES,
        *leases.ROUTES,
        *tables.ROUTES,
        *table_rows.ROUTES,
        *table_streams.ROUTES,
        *permissions.ROUTES,
        *quotas.ROUTES,
        *quota_projections.ROUTES,
        *usage.ROUTES,
        *invoices.ROUTES,
        *series.ROUTES,
        *audit.ROUTES,
        *encryption.ROUTES,
        *session.ROUTES,
        *principals.ROUTES,
        *cluster.ROUTES,
        *weight_proposals.ROUTES,
        *ring.ROUTES,
    ),
    PLACES,
)

"""All routes of REST in one table."""

from opentalos.gateway.rest.cluster import cluster, status, weight_proposals
from opentalos.gateway.rest.group import groups, workers
from opentalos.gateway.rest.message import events, messages
from opentalos.gateway.rest.routing.openapi import get_document
from opentalos.gateway.rest.routing.route import Route, RouteTable
from opentalos.gateway.rest.routing.schema import Schema, text, whole
from opentalos.gateway.rest.table import rows as table_rows
from opentalos.gateway.rest.table import streams as table_streams
from opentalos.gateway.rest.table import tables
from opentalos.gateway.rest.tenant import principals, quota_projections, quotas
from opentalos.gateway.rest.topic import permissions, topics, usage

PARTITIONS_MAX = 1 << 31
# What the variable parts of a path may be. What no such thing can be named by does not exist.
_ANY_NAME = r"^[^\x00-\x1f]+$"
_NAME = r"^[a-zA-Z0-9]([a-zA-Z0-9_-]{0,78}[a-zA-Z0-9-])?$"
PLACES: dict[str, Schema] = {
    "topic": text(
        _ANY_NAME, chars_max=400, about="Plain name, OWNER/NAME or resource name, percent-encoded."
    ),
    "table": text(_ANY_NAME, chars_max=400, about="Plain name or OWNER/NAME, percent-encoded."),
    "partition": whole(0, PARTITIONS_MAX),
    "group": text(_NAME, about="Consumer group."),
    "worker": text(_ANY_NAME, chars_max=256),
    "id": text(_ANY_NAME, chars_max=128, about="Principal id."),
    "key_id": text(_ANY_NAME, chars_max=128),
    "grantee": text(_ANY_NAME, chars_max=256, about="Principal, team or organisation; or guest."),
    "name": text(_NAME, about="Organisation."),
    "server": text(_ANY_NAME, chars_max=128, about="Name of a server."),
}

_DOCUMENT = Route(
    method="GET", path="openapi.json", handler=get_document, tag="about", public=True,
    summary="Describe all of this in OpenAPI 3.1.", reply={"type": "object"},
)  # fmt: skip

TABLE = RouteTable(
    (
        _DOCUMENT,
        *status.ROUTES,
        *topics.ROUTES,
        *messages.ROUTES,
        *events.ROUTES,
        *groups.ROUTES,
        *workers.ROUTES,
        *tables.ROUTES,
        *table_rows.ROUTES,
        *table_streams.ROUTES,
        *permissions.ROUTES,
        *quotas.ROUTES,
        *quota_projections.ROUTES,
        *usage.ROUTES,
        *principals.ROUTES,
        *cluster.ROUTES,
        *weight_proposals.ROUTES,
    ),
    PLACES,
)

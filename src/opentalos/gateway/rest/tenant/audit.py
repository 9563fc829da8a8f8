"""REST of the audit: who changed what."""

from typing import Any, Final

from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.route import Route
from opentalos.gateway.rest.routing.schema import fields, integer, items, nullable, one_of, text
from opentalos.wire.metrics.audit_event import AuditEvent, AuditOutcome

EVENTS_MAX: Final = 1_000  # of one page
EVENTS_DEFAULT: Final = 100
_EVENT = fields(
    id=text(about="Of the event; an event may be listed twice, with the same id."),
    at_ms=integer(about="Unix milliseconds."),
    server=text(),
    principal=text(about="Who acted; system: the server itself."),
    tenant=text(about="Owner id of the principal: itself, or its organisation."),
    address=text(about="Address of the client; empty: unknown."),
    request=text(about="X-Request-Id of the call."),
    action=text(),
    resource=text(),
    owner=text(about="Owner id of the resource; empty: it belongs to the service."),
    outcome=one_of(*(outcome.value for outcome in AuditOutcome)),
    error=text(about="Name of the error unless it was done."),
    details={"type": "object"},
)


async def list_events(call: Call) -> Answer:
    """One page of what concerns the caller."""
    found = await call.broker.audit.read(
        call.caller,
        page=call.query.get("page", 0),
        since_ms=call.query.get("since_ms", 0),
        events_max=call.query.get("limit", EVENTS_DEFAULT),
    )
    events = [_shown(event) for event in found.events]
    return Answer({"events": events, "next_page": found.next_page})


def _shown(event: AuditEvent) -> dict[str, Any]:
    return {**event._asdict(), "details": dict(event.details)}


ROUTES = (
    Route(
        method="GET", path="audit", handler=list_events, tag="audit",
        summary="List changes and denials: who, from where, what, with which outcome.",
        reply=fields(
            events=items(_EVENT),
            next_page=nullable(integer(about="Continue here, also after an empty page.")),
        ),
        query={
            "page": integer(0, about="next_page of the page before."),
            "since_ms": integer(0, about="Only events from this time on, Unix milliseconds."),
            "limit": integer(1, EVENTS_MAX, about=f"Default {EVENTS_DEFAULT}."),
        },
        notes="Administrators get every event; others what their tenant did, and what was done to "
        "what their tenant owns; not what they were denied of other tenants'. Oldest first.",
    ),
)  # fmt: skip

"""REST of health: what an operator should look at now."""

from opentalos.broker.figures.alarms import Severity
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.route import Route
from opentalos.gateway.rest.routing.schema import boolean, fields, items, one_of, text

_ALARM = fields(
    server=text(),
    name=text(about="As an alert in deploy/prometheus/alerts.yml, without its prefix."),
    severity=one_of(*Severity),
    text=text(),
)


async def get_health(call: Call) -> Answer:
    """Alarms of all servers."""
    found = await call.broker.observing.health.read(call.caller)
    alarms = [{"server": each.server, **alarm._asdict()} for each in found for alarm in each.alarms]
    alarms.sort(key=lambda alarm: alarm["severity"] != Severity.CRITICAL)
    severities = [alarm["severity"] for alarm in alarms]
    status = next((s for s in Severity if s in severities), "ok")
    servers = [{"server": each.server, "answers": each.answers} for each in found]
    return Answer({"status": status, "alarms": alarms, "servers": servers})


ROUTES = (
    Route(
        method="GET", path="health", handler=get_health, tag="about",
        summary="Show the alarms of all servers; for administrators.",
        reply=fields(
            status=one_of("ok", *Severity, about="The worst of the alarms."),
            alarms=items(_ALARM),
            servers=items(fields(server=text(), answers=boolean())),
        ),
        notes="Alarms that need no history; deploy/prometheus/alerts.yml has more. /readyz says "
        "whether this server serves, without authentication.",
    ),
)  # fmt: skip

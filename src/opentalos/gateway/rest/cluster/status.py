"""REST of the status: what the status page shows."""

from opentalos.broker.admin.overview import TopicOverview
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.route import Route
from opentalos.gateway.rest.routing.schema import (
    boolean,
    fields,
    integer,
    items,
    nullable,
    number,
    table,
    text,
)

_RATE = nullable(number("Since an earlier look; null at the first one."))
_TOPIC = fields(
    name=text(),
    owner=text(),
    partitions=integer(),
    messages=integer(about="Retained."),
    bytes=integer(about="Retained."),
    messages_per_s=_RATE,
    bytes_per_s=_RATE,
    lags=nullable(table(integer(), maximum=None)),
)


async def get_status(call: Call) -> Answer:
    """Topics with sizes, rates and lags."""
    found, more = await call.broker.overview.overview(call.caller)
    config = call.broker.context.config
    return Answer(
        {
            "server": config.server,
            "native_commits": config.native_commits,
            "topics": list(map(_shown, found)),
            "more": more,
        }
    )


def _shown(found: TopicOverview) -> dict[str, object]:
    states = found.description.partitions
    topic, rate = found.description.topic, found.rate
    return {
        "name": topic.name,
        "owner": topic.owner,
        "partitions": topic.partitions,
        "messages": sum(state.messages for state in states),
        "bytes": sum(state.bytes_count for state in states),
        "messages_per_s": rate and round(rate.messages_per_s, 1),
        "bytes_per_s": rate and round(rate.bytes_per_s, 1),
        "lags": found.lags,
    }


ROUTES = (
    Route(
        method="GET", path="status", handler=get_status, tag="about",
        summary="Show the topics that the caller may see, with their rates and lags.",
        reply=fields(
            server=text(about="The server that replied."),
            native_commits=boolean(about="Whether the accelerator writes local files."),
            topics=items(_TOPIC),
            more=integer(about="Further topics, which are not shown."),
        ),
    ),
)  # fmt: skip

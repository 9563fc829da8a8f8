"""REST of the status: what the status page shows."""

from collections.abc import Sequence

from opentalos.broker.admin.overview import TOPICS_MAX, TopicOverview
from opentalos.broker.values import Topic
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.forms import OWNED_TOPIC
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
from opentalos.gateway.rest.topic.topic_page import AFTER, NEXT, TopicPage, page_of

NAMED_MAX = 25  # topics that a query names: more could be too long for a request line
_RATE = nullable(number("Since an earlier look; null at the first one, or if it is not known."))
_TOPIC = fields(
    name=text(),
    owner=text(),
    partitions=integer(),
    messages=nullable(integer(about="Retained; null: a partition is damaged.")),
    bytes=nullable(integer(about="Retained; null: a partition is damaged.")),
    messages_per_s=_RATE,
    bytes_per_s=_RATE,
    lags=nullable(table(nullable(integer(about="null: a partition is damaged.")), maximum=None)),
)


async def get_status(call: Call) -> Answer:
    """Topics with sizes, rates and lags."""
    overview, config = call.broker.overview, call.broker.context.config
    visible = await overview.listed_topics(call.caller)
    if "topics" in call.query:
        wanted = set(call.query["topics"])
        chosen = [topic for topic in visible if f"{topic.owner}/{topic.name}" in wanted]
        page = TopicPage(chosen, "")
    else:
        limit = min(TOPICS_MAX, call.query.get("limit", TOPICS_MAX))
        page = page_of(visible, call.query.get("after", ""), limit)
    found = await overview.overview_of(call.caller, page.topics)
    return Answer(
        {
            "server": config.server,
            "native_commits": config.native_commits,
            "topics": list(map(_shown, found)),
            "more": _after(visible, page),
            "next": page.next,
        }
    )


def _after(visible: Sequence[Topic], page: TopicPage) -> int:
    """How many topics follow the page."""
    if not page.next:
        return 0
    return len(visible) - 1 - visible.index(page.topics[-1])


def _shown(found: TopicOverview) -> dict[str, object]:
    topic, amounts, rate = found.topic, found.amounts, found.rate
    per_s = rate.bytes_per_s if rate else None
    return {
        "name": topic.name,
        "owner": topic.owner,
        "partitions": topic.partitions,
        "messages": None if amounts.damaged else amounts.messages,
        "bytes": None if amounts.damaged else amounts.bytes_count,
        "messages_per_s": rate and round(rate.messages_per_s, 1),
        "bytes_per_s": None if per_s is None else round(per_s, 1),
        "lags": found.lags,
    }


ROUTES = (
    Route(
        method="GET", path="status", handler=get_status, tag="about",
        summary="Show the topics that the caller may see, with their rates and lags.",
        query={
            "topics": items(
                text(OWNED_TOPIC, about="OWNER/NAME; one not visible is left out."),
                minimum=1, maximum=NAMED_MAX,
            ),
            "after": AFTER,
            "limit": integer(1, TOPICS_MAX, about=f"Topics of one page; default {TOPICS_MAX}."),
        },
        reply=fields(
            next=NEXT,
            server=text(about="The server that replied."),
            native_commits=boolean(about="Whether the accelerator writes local files."),
            topics=items(_TOPIC),
            more=integer(about="Further topics, which are not shown."),
        ),
        notes="By name of the topic. With `topics`, only those. Of topics with many partitions the "
        "bytes are those that quotas count, and bytes_per_s is null.",
    ),
)  # fmt: skip

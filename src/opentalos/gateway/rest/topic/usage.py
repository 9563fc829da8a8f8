"""REST of usage: minutes of a partition, counted from its log."""

from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.route import Route
from opentalos.gateway.rest.routing.schema import fields, integer, items, nullable, text
from opentalos.gateway.rest.topic.naming import topic_of
from opentalos.model.identity import Permission

MINUTES_MAX = 10_000  # of one page
READ_S = 20.0  # for a page that has to be read from storage
_MINUTE = fields(
    minute_ms=integer(about="First millisecond of the minute of append time."),
    records=integer(1),
    bytes=integer(about="Payload of the blocks, as stored."),
    first_offset=integer(),
    next_offset=integer(),
)
_USAGE = fields(
    topic=text(about="Unique id of the topic."),
    name=text(),
    tenant=text(about="Owner of the topic."),
    partitions=integer(about="The topic ever had: 0 to partitions - 1 can be asked for."),
    partition=integer(),
    start_offset=integer(about="First offset that is kept."),
    next_offset=integer(about="Offset of the message that comes next."),
    metered_offset=integer(
        -1, about="__usage tells of all messages below it; -1: the topic is not metered."
    ),
    metered_since=integer(
        about="From it on; larger than 0 if messages were dropped while nothing was metered."
    ),
    total_bytes=integer(about="Ever appended, with the headers of the log's blocks."),
    minutes=items(_MINUTE),
    next_page=nullable(
        integer(about="Go on at this offset; the last minute may go on there, too. null: the end.")
    ),
)


async def get_usage(call: Call) -> Answer:
    """Minutes of one partition."""
    call.exchange.extend(READ_S)
    topic = topic_of(call, Permission.ADMIN)
    found = await call.broker.usage.partition_usage(
        call.caller,
        topic.resource,
        call.query.get("partition", 0),
        offset=call.query.get("offset", 0),
        minutes_max=call.query.get("minutes_max", MINUTES_MAX),
    )
    minutes = [
        {
            "minute_ms": one.minute_ms,
            "records": one.records,
            "bytes": one.bytes,
            "first_offset": one.first_offset,
            "next_offset": one.next_offset,
        }
        for one in found.minutes
    ]
    return Answer(
        {
            "topic": found.topic.uuid,
            "name": found.topic.name,
            "tenant": found.topic.owner,
            "partitions": found.topic.partitions_ever,
            "partition": found.partition,
            "start_offset": found.start_offset,
            "next_offset": found.next_offset,
            "metered_offset": found.metered_offset,
            "metered_since": found.metered_since,
            "total_bytes": found.total_bytes,
            "minutes": minutes,
            "next_page": found.next_page,
        }
    )


ROUTES = (
    Route(
        method="GET", path="topics/{topic}/usage", handler=get_usage, tag="usage",
        summary="Count what one partition took in, by minute, from its log.",
        reply=_USAGE,
        query={
            "partition": integer(about="0 unless asked for otherwise."),
            "offset": integer(about="Where to begin; what is no longer kept is left out."),
            "minutes_max": integer(1, MINUTES_MAX),
        },
        notes="For the topic's owner and administrators. Of a minute that began before "
        "start_offset only the messages that are kept are counted.",
    ),
)  # fmt: skip
